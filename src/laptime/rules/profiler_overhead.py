"""The profiler slows the step down so much that its shares mislead.

Lies when: the untraced steps were slow for another reason (cold caches, a compilation).
Source: our own: half as long again.
"""

from __future__ import annotations

from laptime.kit.units import show
from laptime.records.finding import Finding
from laptime.records.profile import Profile
from laptime.rules._evidence import finding

THRESHOLD = 1.5


def rule(profile: Profile) -> Finding | None:
    """State both step times, and what makes the profiler cheaper."""
    known = profile.reconciled
    if known is None or known.slowdown <= THRESHOLD:
        return None
    traced, untraced = show(known.traced_ns * 1e-9, "s"), show(known.untraced_ns * 1e-9, "s")
    return finding(
        profile,
        "profiler-overhead",
        f"the profiler makes the step {known.slowdown:.1f} times as long ({traced}, without it {untraced}):"
        " host times are overstated, small operators most",
        loud="advice",
        evidence={"slowdown": known.slowdown, "untraced_ns": known.untraced_ns, "traced_ns": known.traced_ns},
        change="profile with fewer extras: no stacks, no shapes, no memory",
    )
