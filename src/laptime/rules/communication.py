"""Communication that no computing hides takes much of the step.

Lies when: a collective waits for a rank that is late: then the network is not the problem, that rank is. One
rank's file alone cannot tell waiting from transfer.
Source: the TensorBoard plugin's 10 % of the mean step, applied to what collectives' kernels really take.
"""

from __future__ import annotations

from laptime.kit.units import percent
from laptime.records.finding import Finding
from laptime.records.profile import Profile
from laptime.rules._evidence import DEVICE, finding
from laptime.rules._reading import NOTABLE, idle_seconds, per_step, share, step, times
from laptime.trace.names import is_communication


def rule(profile: Profile) -> Finding | None:
    """Fire above 10 %; say how much of it is waiting, where the ranks tell."""
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
    wait = f"; {percent(late)} of it, over all ranks, is waiting for the last one" if late is not None else ""
    names = [row.name for row in profile.kernels]
    talking = [row for row, is_one in zip(profile.kernels, is_communication(names), strict=True) if is_one]
    on_device = bool(talking)
    waits = late is not None and late > 0.5
    return finding(
        profile,
        "communication",
        f"only communication runs {times(profile, exposed)}{wait}",
        gain=exposed + idle_seconds(profile, "communication"),
        gain_is="communication while nothing computes, and idle time that waits for it",
        limits=DEVICE,
        evidence={"exposed_s_per_step": exposed, "share": share(profile, exposed), "waiting_share": late},
        rows=[f"kernels/{row.id}" for row in talking],
        change="give every rank the same amount of work; see which rank is late"
        if waits
        else "accumulate gradients under model.no_sync(), a larger batch per rank"
        + (", or ddp.register_comm_hook(None, default_hooks.bf16_compress_hook)" if on_device else ""),
        optimization="ddp_bf16_hook" if on_device and not waits else "",
        next="laptime trace FOLDER_WITH_ALL_RANKS   (tells waiting from transfer)" if late is None else "",
    )
