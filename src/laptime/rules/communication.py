"""Communication that no computing hides takes much of the step.

Lies when: a collective waits for a rank that is late: then that rank is the problem, not the network. One
rank's file alone does not separate waiting from transfer.
Source: the TensorBoard plugin's 10 % of the mean step, applied to what collectives' kernels really take."""

from collections import defaultdict

from laptime.kit.units import percent
from laptime.records.profile import CollectiveUse, Profile
from laptime.rules._evidence import DEVICE, Finding, finding
from laptime.rules._reading import NOTABLE, idle_seconds, marks, per_step, share, step, times
from laptime.trace.names import is_communication

GENERAL = 2
_CHANGES = {
    "all_reduce": "accumulate gradients under model.no_sync(), a larger batch per rank",
    "all_to_all": "overlap it: exchange one half of the batch while the other half computes; send a narrower"
    " dtype; keep ranks that talk most on one machine",
    "all_gather": "gather the next layer's parameters earlier: FSDP's forward_prefetch and backward_prefetch,"
    " or larger units",
    "reduce_scatter": "reduce less often (accumulate gradients), or overlap it with the next layer's"
    " backward",
    "send_recv": "more micro-batches, or an interleaved pipeline schedule, so that stages wait less",
}
_ACTIVATIONS = (
    "fewer ranks per model, a custom all-reduce for small messages, or all_reduce fused with what follows it"
)
_UNKNOWN = (
    "move less data, or move it while something computes: see in the timeline which collectives are alone"
)


def rule(profile: Profile) -> Finding | None:
    """Fire above 10 %; say of which kind it mostly is, and how much is waiting, where ranks tell."""
    parts = profile.overview.breakdown
    exposed = max(
        parts.communication_ns * 1e-9,
        per_step(profile, max((use.exposed_communication_ns for use in profile.overview.devices), default=0)),
    )
    if step(profile) <= 0 or share(profile, exposed) <= NOTABLE:
        return None
    waiting = sum(row.waiting_ns or 0 for row in profile.ranks)
    moving = sum(row.transfer_ns or 0 for row in profile.ranks)
    late = waiting / (waiting + moving) if waiting + moving else None
    wait = (
        f"; {percent(late)} of it, over {profile.ranks_given}, is waiting for the last one"
        if late is not None
        else ""
    )
    exposing = [
        use
        for use in (profile.workload.collectives if profile.workload is not None else [])
        if use.exposed_ns
    ]
    worst = max(exposing, key=lambda use: use.exposed_ns, default=None)
    mostly = f", mostly {worst.kind}" + (f" of {worst.dtype}" if worst.dtype else "") if worst else ""
    waits = late is not None and late > 0.5
    talks = is_communication([row.name for row in profile.kernels])
    change, optimization = _change(profile, worst)
    waited, by_kind = idle_seconds(profile, "communication"), defaultdict[str, float](float)
    for use in profile.workload.collectives if profile.workload is not None else []:
        by_kind[use.kind] += per_step(profile, use.exposed_ns)
    return finding(
        profile,
        f"only communication runs {times(profile, exposed)}{mostly}{wait}",
        gain=exposed + waited,
        gain_is="communication while nothing computes, and idle time that waits for it",
        limits=DEVICE,
        evidence={
            "exposed_s_per_step": exposed,
            "share": share(profile, exposed),
            "waiting_share": late,
            "exposed_by_kind_s": dict(by_kind),
        },
        rows=[f"kernels/{row.id}" for row, talk in zip(profile.kernels, talks, strict=True) if talk],
        change="give every rank the same amount of work; see which rank is late" if waits else change,
        optimization="" if waits else optimization,
        next="trace the folder with the files of all ranks: that separates waiting from transfer"
        if late is None
        else "",
        reaches={"communication": exposed, "waiting": waited or exposed},
    )


def _change(profile: Profile, use: CollectiveUse | None) -> tuple[str, str]:
    """Return the change that shortens this kind of collective, and the optimization that makes it."""
    if use is None or use.kind not in _CHANGES:
        return _UNKNOWN, ""
    if use.kind != "all_reduce":
        return _CHANGES[use.kind], ""
    if profile.workload is not None and profile.workload.kind != "training":
        return _ACTIVATIONS, ""
    # Half the bytes help gradients that are float32, and that DDP's hooks see.
    wide = use.dtype.lower() in ("float", "double") and use.in_backward > use.calls / 2
    if not (
        wide
        and profile.kernels
        and marks(profile, r"DistributedDataParallel\.forward|torch\.distributed\.ddp")
    ):
        return _CHANGES["all_reduce"], ""
    hook = "ddp.register_comm_hook(None, default_hooks.bf16_compress_hook)"
    return f"{_CHANGES['all_reduce']}, or {hook}", "ddp_bf16_hook"
