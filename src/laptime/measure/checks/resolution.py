"""Is one call long enough for the clock that times it?"""

from laptime.analysis.summary import headline
from laptime.measure.checks import Case, Check, Environment, Setting
from laptime.measure.loop import CLOCK_COST, CLOCKS


def check(case: Case, environment: Environment, plan: dict[str, Setting]) -> Check | None:
    """Warn when the cost of the clock is more than 5 % of a call; note if calls were repeated for it."""
    stat = headline(case)
    if stat is None or not stat.value or stat.value > CLOCKS * CLOCK_COST:
        return None
    series = case.find("latency", stat.regime)
    if series is not None and (inside := min(series.calls, default=1)) > 1:
        sentence = f"a call is little longer than reading the clock: a sample is the mean of {inside} calls"
        return Check("resolution", "note", sentence)
    return Check(
        "resolution",
        "warn",
        f"a call takes {stat.value * 1e6:.2f} us, little more than reading the clock",
        "--regime saturated   (times many calls at once)",
    )
