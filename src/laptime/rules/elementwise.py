"""Kernels that compute elementwise, reduce or copy follow one another: each reads and writes memory anew.

Lies when: the kernels run beside others on another stream and cost nothing; or shapes change so often that
compiling for each costs more than it saves.
Source: PyTorch's performance guide ("fuse operations"); the bound is measured: of kernels that follow one
another on a stream, the longest stays. 10 % of the step is our own threshold.
"""

from __future__ import annotations

from laptime.kit.units import percent
from laptime.records.finding import Finding
from laptime.records.profile import Profile
from laptime.rules._evidence import DEVICE, finding
from laptime.rules._reading import NOTABLE, per_step, share, times
from laptime.rules._verdict import limit, shares
from laptime.trace.names import is_fusible

NEEDS = frozenset({"!compiled", "!server"})
GENERAL = True


def rule(profile: Profile) -> Finding | None:
    """Fire where fusing rows of them could save 10 % of a step that the device limits."""
    fusible = profile.workload.fusible if profile.workload is not None else None
    if fusible is None or limit(profile, shares(profile)) not in DEVICE:
        return None
    gain = per_step(profile, fusible.reachable_ns)
    compute = sum(use.compute_ns for use in profile.overview.devices)
    if share(profile, gain) < NOTABLE or not compute:
        return None
    rows = [row for row, fuses in zip(profile.kernels, is_fusible([k.name for k in profile.kernels]), strict=True) if fuses]
    return finding(
        profile,
        "elementwise",
        f"elementwise kernels, reductions and copies take {percent(fusible.total_ns / compute)} of the kernels' time:"
        f" {fusible.kernels / max(1, profile.overview.steps):,.0f} a step; fused where they follow one another they"
        f" save at most {times(profile, gain)}",
        gain=gain,
        gain_is="their time without the longest kernel of each row of neighbours",
        limits=DEVICE,
        evidence={"kernels": fusible.kernels, "total_ns": fusible.total_ns, "rows_of_kernels": fusible.runs},
        rows=[f"kernels/{row.id}" for row in rows[:4]],
        change="torch.compile(model): fuses elementwise operators into few kernels",
        optimization="compile",
        reaches={"compute": gain},
    )
