"""The profiler slows the step down so much that its shares mislead.

Lies when: the untraced steps were slow for another reason (cold caches, a compilation).
Source: our own: half as long again.
"""

from __future__ import annotations

from laptime.kit.units import show
from laptime.records.check import Finding
from laptime.records.profile import Profile
from laptime.rules._evidence import finding

THRESHOLD = 1.5


def rule(profile: Profile) -> Finding | None:
    """State both step times, and what makes the profiler cheaper."""
    plain = profile.reconciled
    if plain is None or plain.slowdown <= THRESHOLD:
        return None
    traced, untraced = show(plain.traced_ns * 1e-9, "s"), show(plain.untraced_ns * 1e-9, "s")
    return finding(
        profile,
        "profiler-overhead",
        f"the profiler makes the step {plain.slowdown:.1f} times as long ({traced}, without it {untraced}):"
        " host times are overstated, small operators most",
        loud="advice",
        evidence={
            "slowdown": plain.slowdown,
            "untraced_ns": plain.untraced_ns,
            "traced_ns": plain.traced_ns,
        },
        change="profile with fewer extras: no stacks, no shapes, no memory",
    )
