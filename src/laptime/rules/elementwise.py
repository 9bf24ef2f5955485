"""Kernels that compute elementwise, reduce or copy follow one another: each reads and writes memory anew.

Lies when: the kernels run beside others on another stream and cost nothing; or shapes change so often that
compiling for each costs more than it saves.
Source: PyTorch's performance guide ("fuse operations"); the bound is measured: of kernels that follow one
another on a stream, the longest stays. 10 % of the step is our own threshold."""

from laptime.kit.units import percent
from laptime.rules._evidence import DEVICE, Finding, Profile, finding
from laptime.rules._reading import NOTABLE, SERIOUS, operators, per_step, share, times
from laptime.rules._verdict import limit, shares
from laptime.trace.names import is_fusible

ON_CPU = (
    r"aten::(mul|add|sub|rsub|div|pow|sqrt|rsqrt|abs|neg|sgn|sign|exp|log|sigmoid|tanh|sin|cos|where|clamp(_min|_max)?"
    r"|square|reciprocal|maximum|minimum|(sigmoid|tanh|threshold)_backward|gt|lt|ge|le|eq)"
)
MANY = 100
NEEDS = frozenset({"!compiled", "!server"})
GENERAL = 1


def rule(profile: Profile) -> Finding | None:
    """Fire if fusing rows of them could save 10 % of a step that the device limits."""
    if not profile.overview.devices:
        return _on_cpu(profile)
    fusible = profile.workload.fusible if profile.workload is not None else None
    if fusible is None or limit(profile, shares(profile)) not in DEVICE:
        return None
    gain = per_step(profile, fusible.reachable_ns)
    compute = sum(use.compute_ns for use in profile.overview.devices)
    if share(profile, gain) < NOTABLE or not compute:
        return None
    rows = [
        row
        for row, fuses in zip(profile.kernels, is_fusible([k.name for k in profile.kernels]), strict=True)
        if fuses
    ]
    return finding(
        profile,
        f"elementwise kernels, reductions and copies take {percent(fusible.total_ns / compute)} of the"
        f" kernels' time: {fusible.kernels / max(1, profile.overview.steps):,.0f} a step; fusing"
        f" those that follow one another saves at most {times(profile, gain)}",
        gain_is="their time without the longest kernel of each row of neighbours",
        limits=DEVICE,
        evidence={"kernels": fusible.kernels, "total_ns": fusible.total_ns, "rows_of_kernels": fusible.runs},
        rows=[f"kernels/{row.id}" for row in rows[:4]],
        change="torch.compile(model): fuses elementwise operators into few kernels",
        optimization="compile",
        reaches={"compute": gain},
    )


def _on_cpu(profile: Profile) -> Finding | None:
    """Without an accelerator: many elementwise operators, each with a pass over memory of its own."""
    rows = operators(profile, ON_CPU)
    number = sum(row.calls for row in rows) / max(1, profile.overview.steps)
    spent = per_step(profile, sum(row.host_self_ns for row in rows))
    if number < MANY or share(profile, spent) < SERIOUS:
        return None
    rows.sort(key=lambda row: -row.host_self_ns)
    gain = spent / 2
    return finding(
        profile,
        f"{number:,.0f} elementwise operators a step take {times(profile, spent)}:"
        f" {', '.join(row.name for row in rows[:3])}",
        gain_is="half of their own time: what is fused still has to compute, and to read and write once",
        limits=("cpu",),
        evidence={"operators_per_step": number, "own_time_s": spent},
        rows=[f"operators/{row.id}" for row in rows[:4]],
        change="torch.compile(model): fuses elementwise operators into few loops",
        optimization="compile",
        stack=rows[0].stacks[0].frames if rows[0].stacks else [],
        reaches={"compute": gain},
    )
