"""Paced calls: could they be served, or did the queue grow?"""

from laptime.analysis.open_loop import open_loop
from laptime.kit.units import percent
from laptime.measure.checks import Case, Check, Environment, Setting


def check(case: Case, environment: Environment, plan: dict[str, Setting]) -> Check | None:
    """Warn when calls came faster than they can be served, or when that is not sure."""
    load = open_loop(case)
    if load is None:
        return None
    if load.balance == "kept":
        busy = percent(load.rate / load.capacity.value)
        return Check("late", "ok", f"{load.rate:.4g} calls/s were kept: it is busy for {busy} of the time")
    served = f"it can serve {load.capacity.value:.4g}/s"
    if load.balance == "broken":
        sentence = f"{load.rate:.4g} calls/s are too many, {served}: the queue grows as long as they come"
    else:
        ends = load.capacity.interval
        between = f" [{ends[0]:.4g}, {ends[1]:.4g}]" if ends else ""
        can = f"{load.capacity.value:.4g}/s{between}"
        sentence = f"{load.rate:.4g} calls/s are about what it can serve ({can})"
    return Check("late", "warn", sentence, f"--rate {load.capacity.value * 0.7:.3g}")
