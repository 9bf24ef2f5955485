"""A Python loop takes a tensor apart, element after element.

Lies when: the selections are views that a compiled program fuses away.
Source: PyTorch's own profiler has the pattern (10 selects in a row); 100 a step and 5 % of it are our own."""

from laptime.rules._evidence import HOST, Finding, Profile, finding
from laptime.rules._reading import idle_seconds, in_loader, is_loading, operators, per_step, share, times

MANY = 100
THRESHOLD = 0.05
ON_CPU = r"aten::(select|unbind|index_select_one|item|argmax|argmin)"
"""On the CPU reading a number back waits for nothing: it is part of the loop."""
NEEDS = frozenset({"!beginning", "!server"})


def rule(profile: Profile) -> Finding | None:
    """Count `aten::select` and the like, and the host time in them."""
    device = bool(profile.overview.devices)
    rows = operators(profile, r"aten::(select|unbind|index_select_one)" if device else ON_CPU)
    calls = {row.name: round(row.calls * (1 - in_loader(row))) for row in rows}
    rows = sorted((row for row in rows if calls[row.name] > 0), key=lambda row: -calls[row.name])
    number = sum(calls.values()) / max(1, profile.overview.steps)
    host = per_step(profile, sum(row.host_total_ns * calls[row.name] / row.calls for row in rows))
    if number < MANY or share(profile, host) < THRESHOLD:
        return None
    stack = next((own.frames for row in rows for own in row.stacks if not is_loading(own.frames)), [])
    return finding(
        profile,
        f"{' and '.join(row.name for row in rows[:2])} {'is' if len(rows) == 1 else 'are'} called"
        f" {number:,.0f} times a step, element by element: {times(profile, host)} of the host",
        gain=min(host, idle_seconds(profile, "host")) if device else host,
        gain_is="host time of the selections" + (" that can have kept the device idle" if device else ""),
        limits=HOST,
        evidence={"calls_per_step": number, "host_s": host},
        rows=[f"operators/{row.id}" for row in rows],
        change="replace the loop by one operation on the whole tensor (gather, where, masks, einsum)",
        stack=stack,
        reaches={"host" if device else "compute": host},
    )
