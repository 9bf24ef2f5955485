"""The device waits for data that no DataLoader range shows: it hides as "CPU Exec" or "Other".

Lies when: a range called like a loader does other work, too.
Source: our own: 5 % of the step, as for a DataLoader that is seen."""

from laptime.rules import _facts
from laptime.rules._evidence import Finding, Profile, finding
from laptime.rules._facts import hidden
from laptime.rules._reading import idle, times

NEEDS = frozenset({"!server", "!beginning"})


def rule(profile: Profile) -> Finding | None:
    """Speak of the longest wait that idle causes, ranges or operators show."""
    wait = hidden(profile)
    if wait is None:
        return None
    cause = idle(profile, "data") or idle(profile, "host")
    prepared = _facts.host_work(profile, "preprocessing")
    stack = prepared[0].stack if prepared else cause.stack if cause is not None else []
    trained = profile.workload is None or profile.workload.kind == "training"
    return finding(
        profile,
        f"the step waits for data {times(profile, wait.seconds)}: {wait.words}; no DataLoader shows it",
        gain=wait.seconds,
        gain_is="idle time of the device meanwhile" if profile.overview.devices else "the wait itself",
        evidence={
            "seen": wait.words,
            "names": wait.names,
            "dataloader_ns_per_step": profile.overview.breakdown.dataloader_ns,
        },
        rows=[f"operators/{name}" for name in wait.names],
        change="make batches ahead of time: torch.utils.data.DataLoader(dataset, num_workers=4, ...)"
        if trained
        else "prepare the next sample while the model works (DataLoader(..., num_workers=4) or a thread),"
        " or on the device (torchvision.transforms.v2 on its tensors)",
        optimization="num_workers",
        stack=stack,
        reaches={"data": wait.seconds, "host": wait.seconds, "synchronisation": wait.seconds},
    )
