"""The device's memory is nearly full.

Lies when: the profiled steps are not the largest (longest sample, validation). Memory that the caching
allocator keeps in reserve is not counted, only that of tensors.
Source: the TensorBoard plugin's 90 % of the device's memory."""

from laptime.kit.units import percent, show
from laptime.rules._evidence import Finding, Profile, finding

THRESHOLD = 0.9
NEEDS = frozenset({"training"})


def rule(profile: Profile) -> Finding | None:
    """Speak of the fullest device, and what was alive at its peak."""
    memories = [row for row in profile.memory if row.device != "cpu" and row.peak and row.capacity]
    if not memories:
        return None
    row = max(memories, key=lambda row: (row.peak or 0) / (row.capacity or 1))
    used = (row.peak or 0) / (row.capacity or 1)
    if used <= THRESHOLD:
        return None
    live = [f"{one.operator} {show(one.bytes, 'B')}" for one in row.live[:3]]
    alive = f"; alive at the peak: {', '.join(live)}" if live else ""
    return finding(
        profile,
        f"tensors fill {percent(used)} of {row.device}"
        f" ({show(row.peak, 'B')} of {show(row.capacity, 'B')}){alive}",
        loud="advice",
        evidence={"peak": row.peak, "capacity": row.capacity, "reserved_peak": row.reserved_peak},
        rows=[f"memory/{row.device}"],
        change="torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False), or bf16 autocast",
        optimization="activation_checkpointing",
    )
