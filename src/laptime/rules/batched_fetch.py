"""The loader picks samples one by one, and puts the batch together again.

Silent if workers do it, whose operators no trace of the program has, and where the dataset works on
numpy's arrays.

Lies when: rows are large: then copying them takes the time, and that stays.
Source: torch/utils/data/_utils/fetch.py, which asks a dataset with `__getitems__` for a whole batch; 100
selections a step and a tenth of it are our own thresholds."""

from laptime.rules._evidence import Finding, Profile, finding
from laptime.rules._reading import NOTABLE, WORTH, in_loader, loading, operators, say_wait, share

MANY = 100
TENSORS = "torch/utils/data/dataset.py"
"""Where a TensorDataset picks a row, and a Subset asks another dataset."""
NEEDS = frozenset({"!beginning", "!server", "loader"})


def rule(profile: Profile) -> Finding | None:
    """Count the selections that the loader makes, and what they take of the wait for it."""
    rows = [row for row in operators(profile, r"aten::(select|index|slice)") if in_loader(row)]
    picks = sum(row.calls * in_loader(row) for row in rows) / max(1, profile.overview.steps)
    work = loading(profile)
    if picks < MANY or work is None or share(profile, work.waited) < NOTABLE:
        return None
    gain = work.waited * work.picking
    if share(profile, gain) < WORTH:
        return None
    row = max(rows, key=lambda row: row.calls * in_loader(row))
    stack = next((place.frames for place in row.stacks), [])
    known = any(frame.find(TENSORS) >= 0 for frame in stack)
    return finding(
        profile,
        f"the DataLoader picks samples one by one, {picks:,.0f} times {row.name} a step, and is waited for"
        f" {say_wait(profile, work.waited)}",
        gain=gain,
        gain_is="the wait for the loader, as far as its operators pick samples and put batches together",
        evidence={"selections_per_step": picks, "share_of_loader": work.picking},
        rows=[f"operators/{row.id}" for row in rows],
        change="give the dataset __getitems__(indices), which takes a whole batch in one operation"
        + (" (of a TensorDataset: tensor[indices] of each), with collate_fn=list" if known else ""),
        optimization="batched_fetch" if known else "",
        stack=stack,
        reaches={"data": gain, "host": gain, "other": gain},
    )
