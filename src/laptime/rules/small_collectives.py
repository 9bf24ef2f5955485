"""Many collectives of little data: each costs its latency, whatever it carries.

Lies when: they run beside computing, or each is needed before the next can begin.
Source: nccl-tests (below about 1 MiB the time of a message hardly depends on its size); PyTorch's DDP buckets
gradients for this reason (`bucket_cap_mb`, 25 MB). 50 a step and 2 % of it are our own thresholds."""

from laptime.kit.units import show
from laptime.rules._evidence import DEVICE, Finding, Profile, finding
from laptime.rules._reading import WORTH, per_step, share, times

MANY = 50


def rule(profile: Profile) -> Finding | None:
    """Speak of the kind that has most small ones."""
    uses = [use for use in (profile.workload.collectives if profile.workload else []) if use.small]
    worst = max(uses, key=lambda use: use.exposed_ns * use.small / use.calls, default=None)
    if worst is None:
        return None
    number = worst.small / max(1, profile.overview.steps)
    gain = per_step(profile, worst.exposed_ns * worst.small / worst.calls)
    if number < MANY or share(profile, gain) < WORTH:
        return None
    size = f", {show(worst.bytes / worst.calls, 'B')} each" if worst.bytes else ""
    return finding(
        profile,
        f"{number:,.0f} {worst.kind} of less than 1 MiB a step{size}: {times(profile, gain)} while nothing"
        " computes",
        gain_is="all time of these collectives while nothing computes",
        limits=DEVICE,
        evidence={"small_per_step": number, "kind": worst.kind, "dtype": worst.dtype, "bytes": worst.bytes},
        change="DistributedDataParallel(model): it fills buckets of 25 MB; by hand, one"
        f" {worst.kind} over torch._utils._flatten_dense_tensors(tensors)"
        if worst.kind == "all_reduce"
        else f"fewer and larger {worst.kind}: several tensors in one flat buffer",
        reaches={"communication": gain},
    )
