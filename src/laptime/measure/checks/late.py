"""Paced calls: was the rate kept?"""

from __future__ import annotations

from laptime.records.case import Case
from laptime.records.check import Check
from laptime.records.environment import Environment
from laptime.records.plan import Setting
from laptime.records.regime import Regime
from laptime.records.series import DISTURBED

TOLERATED = 0.01


def check(case: Case, environment: Environment, plan: dict[str, Setting]) -> Check | None:
    """Warn when over 1 % of the undisturbed calls began more than a tenth of a period behind schedule."""
    late = case.find("disturbance/late", Regime.PACED)
    rate = plan.get("rate")
    if late is None or rate is None or not rate.value or not late.samples:
        return None
    latency = case.find("latency", Regime.PACED)
    label = (latency.label if latency else []) or [0] * len(late.samples)
    delays = [seconds for seconds, bits in zip(late.samples, label, strict=True) if not bits & DISTURBED]
    period = 1.0 / float(rate.value)
    share = sum(1 for seconds in delays if seconds > 0.1 * period) / max(1, len(delays))
    if share <= TOLERATED:
        return Check("late", "ok", f"{rate.value:g} calls/s were kept")
    return Check(
        "late",
        "warn",
        f"{share:.0%} of the calls began late: {rate.value:g} calls/s is more than it can serve",
        f"--rate {float(rate.value) * 0.7:.3g}",
    )
