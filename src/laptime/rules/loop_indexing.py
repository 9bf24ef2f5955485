"""A Python loop takes a tensor apart, element after element.

Lies when: the selections are views that a compiled program fuses away.
Source: PyTorch's own profiler has the pattern (10 selects in a row); 100 a step and 5 % of it are our own.
"""

from __future__ import annotations

from laptime.records.finding import Finding
from laptime.records.profile import Profile
from laptime.rules._evidence import HOST, finding
from laptime.rules._reading import idle_seconds, operators, per_step, share, times

MANY = 100
THRESHOLD = 0.05

NEEDS = frozenset({"!beginning", "!server"})


def rule(profile: Profile) -> Finding | None:
    """Count `aten::select` and the like, and the host time in them."""
    rows = operators(profile, r"aten::(select|unbind|index_select_one)")
    number = sum(row.calls for row in rows) / max(1, profile.overview.steps)
    host = per_step(profile, sum(row.host_total_ns for row in rows))
    if number < MANY or share(profile, host) < THRESHOLD:
        return None
    device = bool(profile.overview.devices)
    stack = next((row.stacks[0].frames for row in rows if row.stacks), [])
    return finding(
        profile,
        "loop-indexing",
        f"{rows[0].name} is called {number:,.0f} times a step: {times(profile, host)} of the host",
        gain=min(host, idle_seconds(profile, "host")) if device else host,
        gain_is="host time of the selections" + (" that can have kept the device idle" if device else ""),
        limits=HOST,
        evidence={"calls_per_step": number, "host_s": host},
        rows=[f"operators/{row.id}" for row in rows],
        change="replace the loop by one operation on the whole tensor (gather, where, masks, einsum)",
        stack=stack,
        reaches={"host": host} if device else None,
    )
