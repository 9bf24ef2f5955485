"""DistributedDataParallel exchanges gradients of GPUs without NCCL.

Lies when: a custom backend (symmetric memory, MSCCL) is used whose kernels have other names.
Source: the TensorBoard plugin's rule (compute capability 3.5 and later), but collectives are looked for on
the device, too: newer traces do not name them in the events that the plugin reads."""

from laptime.rules._evidence import Finding, Profile, finding
from laptime.rules._reading import capability, idle_seconds, marks
from laptime.trace.names import is_communication

OLDEST = (3, 5)
DDP = r"DistributedDataParallel\.forward"


def rule(profile: Profile) -> Finding | None:
    """Fire for CUDA devices whose trace has DDP and no trace of NCCL."""
    able = capability(profile)
    if able is None or able < OLDEST or not marks(profile, DDP):
        return None
    if (profile.world or 2) < 2 or marks(profile, r"nccl"):
        return None
    talking = is_communication([row.name for row in profile.kernels])
    if talking.any() or profile.overview.totals.communication_kernels:
        return None
    gloo = marks(profile, r"(gloo|mpi):")
    if not gloo and not profile.kernels:
        return None
    names = sorted({row.name for row in gloo})
    waits, takes = idle_seconds(profile, "communication"), profile.overview.breakdown.communication_ns * 1e-9
    return finding(
        profile,
        f"DistributedDataParallel on GPUs exchanges gradients through {names[0] if names else 'no NCCL'}",
        gain_is="time that the device waits for collectives, and that they take",
        loud="advice",
        evidence={"collectives": names},
        rows=[f"operators/{name}" for name in names],
        change='torch.distributed.init_process_group(backend="nccl")',
        reaches={"waiting": waits, "communication": takes},
    )
