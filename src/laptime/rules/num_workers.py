"""The step waits for its DataLoader.

Lies when: the loader was still filling its queue (first steps of an epoch), or the disk cache was cold: then
later steps wait less. More workers do not help when all cores are busy already.
Source: the TensorBoard plugin's 5 % of the mean step."""

from __future__ import annotations

from laptime.rules._evidence import Finding, Profile, finding
from laptime.rules._reading import (
    CONSIDERABLE,
    DATA_WAIT,
    WORTH,
    idle,
    idle_seconds,
    loader_wait,
    marks,
    per_step,
    say_wait,
    share,
    slowdown,
    step,
)

HANDOVER = 0.5e-3
"""Seconds that taking a batch over from another process costs at least: 2 ms were measured for a batch of
4 kB that was ready, on a shared machine of two cores (DataLoader, one worker)."""
LOADER = r"enumerate\(Data(Loader|Pipe)\)#"
NEEDS = frozenset({"!beginning", "!server"})


def rule(profile: Profile) -> Finding | None:
    """Say how long each step waits, and what to change for a loader with and without workers."""
    waited = loader_wait(profile)
    if step(profile) <= 0 or share(profile, waited) <= DATA_WAIT:
        return None
    loaders = marks(profile, LOADER)
    alone = any("SingleProcess" in row.name for row in loaders)
    many = any("MultiProcessing" in row.name for row in loaders)
    host = per_step(profile, sum(row.host_ns for row in loaders))
    gain = max(waited, idle_seconds(profile, "data"))
    usable = profile.facts.get("usable_cpus")
    cpus = float(usable) if isinstance(usable, int | float) else 2.0
    workers = max(1, int(cpus) - many)
    if not profile.overview.devices:
        # Seconds per step that so many workers save without an accelerator: the step lasts as long as the
        # slowest of loading, shared between them, of the rest, and of all work, shared between the CPUs.
        plain = profile.reconciled
        busy = (plain.threads_busy if plain is not None else None) or 1.0
        slowest = max(waited / workers, step(profile) - waited, step(profile) * busy / cpus)
        gain = max(0.0, step(profile) - slowest - HANDOVER * slowdown(profile))
        if share(profile, gain) < WORTH:
            return _less_work(profile, waited) if share(profile, waited) >= CONSIDERABLE and alone else None
    how = " without workers" if alone and not many else ", although it has workers" if many else ""
    cause = idle(profile, "data")
    return finding(
        profile,
        "num-workers",
        f"the DataLoader{how} is waited for {say_wait(profile, max(waited, gain))}",
        gain=gain,
        gain_is="wait for the loader while the device runs nothing"
        if profile.overview.devices
        else "all work shared between the usable CPUs, less handing batches over",
        evidence={
            "dataloader_s_per_step": waited,
            "share": share(profile, waited),
            "host_wait_s_per_step": host or None,
            "loaders": [row.name for row in loaders[:3]],
        },
        change=_change(profile, many, workers),
        optimization="num_workers",
        stack=cause.stack if cause is not None else [],
        reaches={"data": gain, "host": gain - idle_seconds(profile, "data"), "other": gain}
        if profile.overview.devices
        else {"data": gain},
    )


def _less_work(profile: Profile, waited: float) -> Finding:
    """Input limits the step, and workers would take as much from the operators as they give."""
    return finding(
        profile,
        "num-workers",
        f"the DataLoader is waited for {say_wait(profile, waited)}, and workers have no CPU of their own",
        loud="advice",
        evidence={
            "dataloader_s_per_step": waited,
            "share": share(profile, waited),
            "reaches": {"data": waited},  # and no gain is promised
        },
        change="less work per sample: cache what comes out the same, whole batches instead of single samples",
    )


def _change(profile: Profile, many: bool, workers: int) -> str:
    if many:
        return "DataLoader(..., num_workers=more, prefetch_factor=4), or less work per sample"
    if not profile.overview.devices:
        return (
            f"DataLoader(..., num_workers={workers}, persistent_workers=True): workers take CPUs from the"
            " operators; or less work per sample: cache what comes out the same"
        )
    return "DataLoader(..., num_workers=4, persistent_workers=True): try 1 to the number of cores"
