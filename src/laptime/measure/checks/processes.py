"""Does every fresh process have the same speed? Where threads come to lie may make one slow for its life."""

import numpy as np

from laptime.analysis.evidence import select
from laptime.analysis.steady import find_timed
from laptime.kit.units import show
from laptime.measure.checks import Case, Check, Environment, Setting
from laptime.records.series import Regime

FAST = 0.6  # of the median: calls that are faster, again and again, show a speed that this process seldom has
AGAIN, SHARE = 5, 0.01
SHORT, THREADS = 5e-3, 1.3
"""Seconds of a call, and CPUs that it keeps busy, from which threads that wait for each other may decide."""
APART = 1.1  # of medians of processes


def is_suspect(case: Case) -> bool:
    """Whether one process may not show every speed that the calls of a case have."""
    series = case.find("latency", Regime.ISOLATED)
    if series is None or not series.samples:
        return False
    evidence = select(series)
    values, middle = evidence.values, float(np.median(evidence.values))
    fast = int((values < FAST * middle).sum())
    if fast >= AGAIN and fast >= SHARE * len(values):
        return True
    cpu = case.find("disturbance/cpu", Regime.ISOLATED)
    if cpu is None or len(cpu.samples) != len(series.samples) or middle > SHORT:
        return False
    return float(np.asarray(cpu.samples)[evidence.positions].sum()) > THREADS * float(values.sum())


def check(case: Case, environment: Environment, plan: dict[str, Setting]) -> Check | None:
    """Warn if processes differ more than their calls explain, or one may differ from others unseen."""
    budget = plan.get("budget")
    is_set = budget is not None and budget.origin in ("flag", "argument") and not case.details.in_process
    is_brief = is_set and budget is not None and float(budget.value) < 10
    for series in find_timed(case):
        evidence = select(series)
        process = np.asarray(series.process or [0] * len(series.samples))[evidence.positions]
        medians = [float(np.median(evidence.values[process == each])) for each in np.unique(process)]
        if len(medians) > 1 and max(medians) > APART * min(medians):
            told = ", ".join(show(seconds, "s") for seconds in sorted(medians))
            return Check(
                "processes",
                "warn",
                f"fresh processes have different speeds ({told}): the interval holds them all",
                "--preset strict   measures more of them; --threads 1 may make them alike",
            )
        if len(medians) == 1 and is_brief and is_suspect(case):
            return Check(
                "processes",
                "warn",
                "one process may not show every speed of these calls, and there was no time for another",
                "--budget 10s   measures two more of them",
            )
    return None
