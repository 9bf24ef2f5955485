"""The device waits for data that no DataLoader range shows: it hides as "CPU Exec" or "Other".

Lies when: a phase called data holds other work, too, or building a batch is itself the job of the model.
Source: our own; the same 5 % as for a visible DataLoader.
"""

from __future__ import annotations

import re

from laptime.records.finding import Finding
from laptime.records.profile import Profile
from laptime.rules._evidence import DATA_WAIT, finding, idle, idle_seconds, per_step, share, step, times

MAKES_BATCHES = re.compile(
    r"aten::(stack|_stack|from_file|from_numpy|_cat|cat|div_?|to|_to_copy|copy_|permute|contiguous|clone|sub_?)$"
    r"|collate|__getitem__|decode|load_batch|next_batch|get_batch|dataset|resize|crop|normalize",
    re.IGNORECASE,
)


def rule(profile: Profile) -> Finding | None:
    """Speak of the wait that phases, idle causes or timed loaders know, and the breakdown does not."""
    overview = profile.overview
    if step(profile) <= 0:
        return None
    shown = overview.breakdown.dataloader_ns * 1e-9
    if share(profile, shown) > DATA_WAIT:
        return None  # the DataLoader does not hide
    gain = _wait(profile)
    if share(profile, gain) <= DATA_WAIT:
        return None
    cause = idle(profile, "data")
    busy = [name for name, _ in (cause.operators if cause is not None else []) if MAKES_BATCHES.search(name)]
    told = f" while the host is in {', '.join(busy[:3])}" if busy else ""
    return finding(
        profile,
        "hidden-input",
        f"the step waits for data {times(profile, gain)}{told}; no DataLoader range shows it",
        gain=gain,
        gain_is="idle time of the device before the batch is there; on a CPU the wait itself",
        evidence={"dataloader_s_per_step": shown, "wait_s_per_step": gain, "operators": busy},
        rows=[f"operators/{name}" for name in busy],
        change="make batches ahead of time: torch.utils.data.DataLoader(dataset, num_workers=4, ...)",
        optimization="num_workers",
        stack=cause.stack if cause is not None else [],
    )


def _wait(profile: Profile) -> float:
    """Seconds per step that data is waited for: by what the device lost, else by what the host waited."""
    if profile.overview.devices:
        return idle_seconds(profile, "data")
    known = [step.data_wait_ns for step in profile.steps]
    phase = sum(each.host_ns for each in profile.overview.phases if each.name == "data")
    return min(step(profile), max(per_step(profile, sum(known)), phase * 1e-9))
