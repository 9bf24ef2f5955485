"""Is one call long enough for the clock that times it?"""

from __future__ import annotations

from laptime.analysis.summary import headline
from laptime.records.case import Case
from laptime.records.check import Check
from laptime.records.environment import Environment
from laptime.records.plan import Setting

CLOCK_COST = 0.3e-6
"""Reading two clocks around a call costs about this much, in seconds; it is part of every sample."""


def check(case: Case, environment: Environment, plan: dict[str, Setting]) -> Check | None:
    """Warn when the cost of the clock is more than 5 % of a call."""
    stat = headline(case)
    if stat is None or not stat.value or stat.value > 20 * CLOCK_COST:
        return None
    return Check(
        "resolution",
        "warn",
        f"a call takes {stat.value * 1e6:.2f} us, little more than reading the clock",
        "--regime saturated   (times many calls at once)",
    )
