"""Did the level settle, or was the program still warming up, slowing down or wandering?"""

from laptime.analysis.evidence import select
from laptime.analysis.steady import find_timed, late_step, levels
from laptime.kit.units import percent
from laptime.measure.checks import Case, Check, Environment, Setting

_LONGER = "--budget 60s   or --preset strict: it needs more time"


def check(case: Case, environment: Environment, plan: dict[str, Setting]) -> Check | None:
    """Warn when a process never reached a steady level; tell of a slow-down."""
    series = find_timed(case)
    if any(select(each).basis == "all" for each in series):
        return Check("settled", "warn", "the latency never settled", _LONGER)
    settled = [found for each in series for found in levels(each)]
    kinds = [(steady.kind, steady.change) for steady, _ in settled]
    if any(kind == "unstable" for kind, _ in kinds):
        return Check(
            "settled", "warn", "the latency wanders between levels that lie more than 10 % apart", _LONGER
        )
    if step := max((late_step(seconds, steady) for steady, seconds in settled), default=0.0):
        sentence = f"its level changed by {percent(step)} in the middle of the measurement"
        return Check("settled", "warn", sentence, _LONGER)
    slower = [change for kind, change in kinds if kind == "slow-down"]
    if slower:
        share = 1 / (1 + min(slower)) - 1
        return Check(
            "settled",
            "note",
            f"it slowed down while measured, by {share:.0%}; the later level is reported",
            "laptime doctor   (heat, power limit, clocks)",
        )
    return Check("settled", "ok", "the latency settled") if kinds else None
