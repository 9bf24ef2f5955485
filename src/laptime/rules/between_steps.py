"""Steps do not touch: what the program does between two of them is in no step, and in no figure of one.

Lies when: the program waits between steps on purpose (a request that has not come).
Source: our own: a tenth of the step. Ranges of NVTX around forward and backward leave loading outside.
"""

from __future__ import annotations

from laptime.kit.units import percent, show
from laptime.records.check import Finding
from laptime.records.profile import Profile
from laptime.rules._evidence import finding
from laptime.rules._reading import NOTABLE, SERIOUS, share, step

FRAMEWORKS = ("torch", "tensorflow")


def rule(profile: Profile) -> Finding | None:
    """Say how much time it is, and how to have it in the steps."""
    between = profile.overview.between_ns * 1e-9
    if share(profile, between) < NOTABLE or profile.overview.steps < 2:
        return None
    whole = between + step(profile)
    return finding(
        profile,
        "between-steps",
        f"{show(between, 's')} pass between one step and the next, {percent(between / whole)} of all"
        " the time: they are in no step, and no figure of a step has them in it",
        loud="advice" if between > SERIOUS * step(profile) else "info",
        evidence={"between_s_per_step": between, "share_of_time": between / whole},
        change="mark the whole turn of the loop, loading included: profiler.step() once at its end, or"
        " the NVTX range around it",
    )
