"""The file shows only the host of a program that works on an accelerator.

Lies when: the program names CUDA but then runs without it.
Source: our own: operators or collectives of an accelerator, and no device activity in the file."""

from laptime.rules._evidence import Finding, Profile, finding
from laptime.rules._verdict import HOST_ONLY
from laptime.rules._verdict import host_only as is_host_only


def rule(profile: Profile) -> Finding | None:
    """Say how to record the device, too."""
    if not is_host_only(profile):
        return None
    return finding(
        profile,
        f"{HOST_ONLY}: waiting for the device looks like work of the host",
        loud="advice",
        change="torch.profiler.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], ...)",
    )
