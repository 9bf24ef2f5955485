"""The host waits in a copy for work that was launched earlier, and the file shows nothing of that work.

Lies when: the clocks of host and device disagree.
Source: CUDA's API (a synchronous copy begins when everything before it on its stream has ended); a fifth of
the step is our own threshold."""

from laptime.kit.units import show
from laptime.rules._evidence import Finding, Profile, finding
from laptime.rules._reading import SERIOUS, per_step, share, times

NEEDS = frozenset({"!beginning"})


def rule(profile: Profile) -> Finding | None:
    """Name the call, and how long the host is in it."""
    waits = profile.workload.empty_waits if profile.workload is not None else []
    empty = per_step(profile, sum(row.idle_ns for row in waits))
    if not waits or share(profile, empty) < SERIOUS:
        return None
    worst = waits[0]
    spent = per_step(profile, worst.wait_ns)
    return finding(
        profile,
        f"the host is in {worst.call} {times(profile, spent)}: it waits for work that was launched earlier,"
        f" and {show(empty, 's')} of that time the file shows no work of the device",
        loud="advice",
        evidence={
            "call": worst.call,
            "calls": worst.calls,
            "wait_ns": worst.wait_ns,
            "idle_ns": worst.idle_ns,
        },
        change="record the device's work as a whole (all processes on it, nodes of graphs): what it computes"
        " in this time is what limits the step",
        next="to overlap the wait: copy to pinned memory with non_blocking=True, and wait for an event later",
    )
