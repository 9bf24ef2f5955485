"""Gradients are filled with zeros, one after the other, instead of being dropped.

Lies when: the program needs zeros (it reads gradients of parameters that took no part).
Source: PyTorch's performance guide (`set_to_none` is the default from 2.0 on); at least 10 fills per step and
1 % of it are our own thresholds."""

from laptime.rules._evidence import Finding, Profile, finding
from laptime.rules._reading import marks, operators, per_step, removable, share, times

FEW = 10
THRESHOLD = 0.01
NEEDS = frozenset({"training"})


def rule(profile: Profile) -> Finding | None:
    """Count what `zero_grad` launches, or calls if there is no device."""
    rows = marks(profile, r"Optimizer\.zero_grad#")
    steps = max(1, profile.overview.steps)
    device = bool(profile.overview.devices)
    fills = sum(row.kernels if device else row.operators for row in rows) / steps
    host = per_step(profile, sum(row.host_ns for row in rows))
    on_device = per_step(profile, sum(row.device_ns for row in rows))
    gain = removable(profile, host, on_device)
    if fills < FEW or share(profile, gain) < THRESHOLD:
        return None
    return finding(
        profile,
        f"zero_grad {'launches' if device else 'calls'} {fills:,.0f} {'kernels' if device else 'operators'}"
        f" to fill gradients with zeros: {times(profile, host)} on the host",
        gain=gain,
        gain_is="its device time, and of its host time what can have kept the device idle"
        if device
        else "all time in zero_grad",
        evidence={"fills_per_step": fills, "host_s": host},
        rows=[f"operators/{row.id}" for row in operators(profile, r"aten::(zero_|fill_|_foreach_zero_)")],
        change="optimizer.zero_grad(set_to_none=True)",
        optimization="set_to_none",
        reaches={"host": host, "compute": on_device} if device else {"compute": host},
    )
