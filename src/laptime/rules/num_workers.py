"""The step waits for its DataLoader.

Lies when: the loader was still filling its queue (first steps of an epoch), or the disk cache was cold: then
later steps wait less. More workers do not help when all cores are busy already.
Source: the TensorBoard plugin's 5 % of the mean step."""

from laptime.rules import _reading as reading
from laptime.rules._evidence import Finding, Profile, finding

HANDOVER = 0.5e-3
"""Seconds that taking a batch over from another process costs at least: 2 ms were measured for a batch of
4 kB that was ready, on a shared machine of two cores (DataLoader, one worker)."""
LOADER = r"enumerate\(Data(Loader|Pipe)\)#"
NEEDS = frozenset({"!beginning", "!server"})


def rule(profile: Profile) -> Finding | None:
    """Say how long each step waits, and what to change for a loader with and without workers."""
    waited = reading.loader_wait(profile)
    if reading.step(profile) <= 0 or reading.share(profile, waited) <= reading.DATA_WAIT:
        return None
    loaders = reading.marks(profile, LOADER)
    alone = any("SingleProcess" in row.name for row in loaders)
    many = any("MultiProcessing" in row.name for row in loaders)
    host = reading.per_step(profile, sum(row.host_ns for row in loaders))
    gain = max(waited, reading.idle_seconds(profile, "data"))
    usable = profile.facts.get("usable_cpus")
    cpus = float(usable) if isinstance(usable, int | float) else 2.0
    workers = max(1, int(cpus) - many)
    if not profile.overview.devices:
        # Seconds per step that so many workers save without an accelerator: the step lasts as long as the
        # slowest of loading, shared between them, of the rest, and of all work, shared between the CPUs.
        plain = profile.reconciled
        busy = (plain.threads_busy if plain is not None else None) or 1.0
        slowest = max(waited / workers, reading.step(profile) - waited, reading.step(profile) * busy / cpus)
        gain = max(0.0, reading.step(profile) - slowest - HANDOVER * reading.slowdown(profile))
        if reading.share(profile, gain) < reading.WORTH:
            is_input = alone and reading.share(profile, waited) >= reading.CONSIDERABLE
            return _less_work(profile, waited) if is_input else None
    how = " without workers" if alone and not many else ", although it has workers" if many else ""
    cause = reading.idle(profile, "data")
    return finding(
        profile,
        f"the DataLoader{how} is waited for {reading.say_wait(profile, max(waited, gain))}",
        gain=gain,
        gain_is="wait for the loader while the device runs nothing"
        if profile.overview.devices
        else "all work shared between the usable CPUs, less handing batches over",
        evidence={
            "dataloader_s_per_step": waited,
            "share": reading.share(profile, waited),
            "host_wait_s_per_step": host or None,
            "loaders": [row.name for row in loaders[:3]],
        },
        change=_change(profile, many, workers),
        optimization="num_workers",
        stack=cause.stack if cause is not None else [],
        reaches={"data": gain, "host": gain - reading.idle_seconds(profile, "data"), "other": gain}
        if profile.overview.devices
        else {"data": gain},
    )


def _less_work(profile: Profile, waited: float) -> Finding:
    """Input limits the step, and workers would take as much from the operators as they give."""
    return finding(
        profile,
        f"the DataLoader is waited for {reading.say_wait(profile, waited)}, and workers have no CPU of their"
        " own",
        loud="advice",
        evidence={
            "dataloader_s_per_step": waited,
            "share": reading.share(profile, waited),
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
