"""DistributedDataParallel copies every gradient out of its bucket again.

Lies when: the program detaches or replaces gradients, which views of the bucket do not allow.
Source: PyTorch's documentation of `gradient_as_bucket_view`; 1 % of the step is our own threshold."""

from laptime.rules._evidence import Finding, Profile, finding
from laptime.rules._reading import marks, per_step, removable, share, times

THRESHOLD = 0.01
COPY = r"torch\.distributed\.ddp\.reducer::copy_bucket_to_grad"


def rule(profile: Profile) -> Finding | None:
    """Count the copies and what they take."""
    rows = marks(profile, COPY)
    host = per_step(profile, sum(row.host_ns for row in rows))
    on_device = per_step(profile, sum(row.device_ns for row in rows))
    gain = removable(profile, host, on_device)
    if not rows or share(profile, gain) < THRESHOLD:
        return None
    number = sum(row.calls for row in rows) / max(1, profile.overview.steps)
    return finding(
        profile,
        f"DDP copies {number:,.0f} gradients out of its buckets: {times(profile, host)} on the host",
        gain=gain,
        gain_is="device time of the copies, and of their host time what can have kept the device idle",
        evidence={"copies_per_step": number, "host_s": host},
        rows=[f"operators/{row.name}" for row in rows],
        change="DistributedDataParallel(..., gradient_as_bucket_view=True)",
        optimization="ddp_gradient_as_bucket_view",
        reaches={"host": host, "copies": on_device, "compute": on_device}
        if profile.overview.devices
        else None,
    )
