"""The step waits for its DataLoader.

Lies when: the loader was still filling its queue (first steps of an epoch), or the disk cache was cold: then
later steps wait less. More workers do not help when all cores are busy already.
Source: the TensorBoard plugin's 5 % of the mean step.
"""

from __future__ import annotations

from laptime.records.finding import Finding
from laptime.records.profile import Profile
from laptime.rules._evidence import finding
from laptime.rules._reading import DATA_WAIT, idle, idle_seconds, marks, per_step, share, step, times

LOADER = r"enumerate\(Data(Loader|Pipe)\)#"

NEEDS = frozenset({"!beginning", "!server"})


def rule(profile: Profile) -> Finding | None:
    """Say how long each step waits, and what to change for a loader with and without workers."""
    waited = _waited(profile)
    if step(profile) <= 0 or share(profile, waited) <= DATA_WAIT:
        return None
    loaders = marks(profile, LOADER)
    alone = any("SingleProcess" in row.name for row in loaders)
    many = any("MultiProcessing" in row.name for row in loaders)
    host = per_step(profile, sum(row.host_ns for row in loaders))
    gain = max(waited, idle_seconds(profile, "data"))
    how = " without workers" if alone and not many else ", although it has workers" if many else ""
    cause = idle(profile, "data")
    return finding(
        profile,
        "num-workers",
        f"the DataLoader{how} is waited for {times(profile, gain)}",
        gain=gain,
        gain_is="wait for the loader while the device runs nothing",
        evidence={
            "dataloader_s_per_step": waited,
            "share": share(profile, waited),
            "host_wait_s_per_step": host or None,
            "loaders": [row.name for row in loaders[:3]],
        },
        change=_change(profile, many),
        optimization="num_workers",
        stack=cause.stack if cause is not None else [],
        reaches={"data": gain},
    )


def _waited(profile: Profile) -> float:
    """Seconds per step; without an accelerator no more than the share that the untraced steps had."""
    traced = profile.overview.breakdown.dataloader_ns * 1e-9
    untraced = profile.reconciled
    if (
        profile.overview.devices
        or untraced is None
        or untraced.loader_wait_ns is None
        or untraced.untraced_ns <= 0
    ):
        return traced
    return min(traced, step(profile) * untraced.loader_wait_ns / untraced.untraced_ns)


def _change(profile: Profile, many: bool) -> str:
    if many:
        return "DataLoader(..., num_workers=more, prefetch_factor=4), or less work per sample"
    if not profile.overview.devices:
        return "DataLoader(..., num_workers=1, persistent_workers=True): workers take CPUs from the operators"
    return "DataLoader(..., num_workers=4, persistent_workers=True): try 1 to the number of cores"
