"""The optimizer updates one parameter after the other.

Lies when: parameters are few and large, so that each kernel has enough to do.
Source: PyTorch's performance guide and its own profiler's single-tensor pattern; over 100 kernels (on a CPU:
operators) per step and 2 % of it are our own thresholds."""

from laptime.kit.units import show
from laptime.rules._evidence import Finding, Profile, finding, optimizer_switch
from laptime.rules._reading import WORTH, marks, operators, per_step, removable, share, times

MANY = 100
STEP = r"Optimizer\.step#"
OPTIMIZER = "optimizer"


def rule(profile: Profile) -> Finding | None:
    """Count what `Optimizer.step` launches, or calls if there is no device."""
    rows = [row for row in marks(profile, STEP) if "fused" not in row.name.lower()]
    if not rows or operators(profile, r"aten::_fused_.*"):
        return None
    steps = max(1, profile.overview.steps)
    device = bool(profile.overview.devices)
    pieces = sum(row.kernels if device else row.operators for row in rows) / steps
    host = per_step(profile, sum(row.host_ns for row in rows))
    # With a closure (Lightning gives one) forward and backward run inside `step`; the phase leaves them out.
    host = min([host, *(phase.host_ns / 1e9 for phase in profile.overview.phases if phase.name == OPTIMIZER)])
    on_device = per_step(profile, sum(row.device_ns for row in rows))
    gain = removable(profile, host, on_device)
    if pieces < MANY or share(profile, gain) < WORTH:
        return None
    name = rows[0].name.removeprefix("Optimizer.step#").removesuffix(".step")
    what = "kernels" if device else "operators"
    lists = bool(operators(profile, r"aten::_foreach_.*"))
    switch = optimizer_switch(profile, name)
    if not switch or (switch == "foreach=True" and lists):
        return None
    return finding(
        profile,
        f"{name}.step launches {pieces:,.0f} kernels a step: {show(on_device, 's')} on the device and"
        f" on the host {times(profile, host)}"
        if device
        else f"{name}.step calls {pieces:,.0f} operators a step: {times(profile, host)}",
        gain=gain,
        gain_is="its device time, and of its host time what can have kept the device idle"
        if device
        else "all time in Optimizer.step",
        evidence={f"{what}_per_step": pieces, "host_s": host, "device_s": on_device, "foreach": lists},
        rows=[
            f"operators/{row.id}" for row in operators(profile, r"aten::(add_|mul_|addcmul_|addcdiv_|sqrt)")
        ],
        change=f"torch.optim.{name}(..., {switch})",
        optimization="fused_optimizer" if switch == "fused=True" else "foreach_optimizer",
        reaches={"host": host, "compute": on_device} if device else {"compute": host},
    )
