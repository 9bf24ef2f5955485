"""There are too few steps to tell a habit from an accident.

Lies when: the program has only one step by nature (one long inference).
Source: TraceML warns from two steps on.
"""

from __future__ import annotations

from laptime.records.check import Finding
from laptime.records.profile import Profile
from laptime.rules._evidence import finding
from laptime.rules._reading import ENOUGH_STEPS


def rule(profile: Profile) -> Finding | None:
    """Say what was taken as a step."""
    number = profile.overview.steps
    if number >= ENOUGH_STEPS or profile.is_snapshot or profile.is_log:
        return None
    marked = any(step.number for step in profile.steps)
    return finding(
        profile,
        "few-steps",
        "only one step was recorded: it may be an exception, so nothing is called a problem"
        if marked
        else "the file has no steps: all of it is taken as one, so nothing is called a problem",
        loud="info",
        evidence={"steps": number},
        change="torch.profiler.schedule(wait=1, warmup=2, active=5) and profiler.step() after each step",
    )
