"""Does the program alone use up its container's CPU quota? Then being stopped is a part of its time."""

import numpy as np

from laptime.measure.checks import Case, Check, Environment, Setting
from laptime.measure.labels import WAITED_SHARE, uses_up_quota


def check(case: Case, environment: Environment, plan: dict[str, Setting]) -> Check | None:
    """Note it, with the share of calls that the quota stopped."""
    for series in case.series:
        throttled = case.find("disturbance/throttled", series.regime)
        if series.metric.tag != "latency" or throttled is None or not uses_up_quota(case, series):
            continue
        stopped = np.mean(np.asarray(throttled.samples) > WAITED_SHARE * np.asarray(series.samples))
        if stopped > 0:
            return Check(
                "quota",
                "note",
                f"the quota of {case.details.usable_cpus:g} CPUs stopped {stopped:.0%} of the calls, and the "
                "program alone used it up: that is part of its time",
                "a larger quota, or --threads 1",
            )
    return None
