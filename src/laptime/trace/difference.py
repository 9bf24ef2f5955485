"""Two profiles side by side: what got slower or faster, per step, by what explains the difference.

Pure functions on records: a profile made years ago can be compared."""

import math
from collections.abc import Iterable, Mapping
from operator import attrgetter
from statistics import variance
from typing import NamedTuple

from laptime.analysis.student_t import t_quantile
from laptime.kit.units import percent, show
from laptime.records.comparison import Change, ChangedRow, Difference
from laptime.records.profile import Profile

LEAST_SHARE = 0.02
LEAST_NS = 1_000
"""A change is told when it is at least this share of the time before and this many ns per step."""
PARTS = {
    "kernel": "compute kernels", "memcpy": "copies", "memset": "memsets", "communication": "communication",
    "runtime": "runtime calls", "dataloader": "waiting for data", "cpu": "operators on the host",
    "other": "time that no event explains",
}  # fmt: skip
"""Parts of the breakdown, in the words of a sentence."""


class Spent(NamedTuple):
    """ns and calls per step."""

    ns: float
    calls: float = 0.0


def difference(before: Profile, after: Profile) -> Difference:
    """Return the changes from `before` to `after`.

    Everything is per step: totals of a file are divided by its steps. Lies when: a file has much work outside
    its steps (warm-up, evaluation); tables count it, steps do not."""
    old, new = before.overview, after.overview
    gain = new.step_ns - old.step_ns
    breakdown = _rows(
        {part: Spent(getattr(old.breakdown, f"{part}_ns")) for part in PARTS},
        {part: Spent(getattr(new.breakdown, f"{part}_ns")) for part in PARTS},
        gain,
    )
    first, *others = [file.name for file in before.files] or [""]
    return Difference(
        before=f"{first} and {len(others)} more" if others else first,
        before_step_ns=old.step_ns,
        after_step_ns=new.step_ns,
        speedup=old.step_ns / new.step_ns if new.step_ns else 1.0,
        ci95=_interval(before, after),
        sentence=_sentence(old.step_ns, new.step_ns, breakdown),
        breakdown=breakdown,
        operators=_keep_changed(_rows(_operators(before), _operators(after), gain)),
        kernels=_keep_changed(_rows(_kernels(before), _kernels(after), gain)),
        idle=_rows(_idle(before), _idle(after), gain),
        warnings=_warnings(before, after),
    )


def _interval(before: Profile, after: Profile) -> tuple[float, float] | None:
    """95 % interval of the ratio of the mean steps: Welch's t on the logarithms of the steps.

    Lies when: the steps of a trace are alike and other runs are not; it knows nothing of those."""
    logs = [
        [math.log(step.end_ns - step.start_ns) for step in each.steps if step.end_ns > step.start_ns]
        for each in (before, after)
    ]
    if any(len(log) < 2 for log in logs):
        return None
    shares = [variance(log) / len(log) for log in logs]
    error = sum(shares)
    if not error:
        return None
    df = error**2 / sum(share**2 / (len(each) - 1) for share, each in zip(shares, logs, strict=True))
    reach = t_quantile(0.975, df) * math.sqrt(error)
    ratio = math.log(before.overview.step_ns / after.overview.step_ns)
    return math.exp(ratio - reach), math.exp(ratio + reach)


def change(before_ns: int, after_ns: int, before: bool = True, after: bool = True) -> Change:
    """The word for a change; `before` and `after` say whether the thing was there at all."""
    if before != after:
        return "added" if after else "gone"
    delta = after_ns - before_ns
    if abs(delta) < max(LEAST_NS, LEAST_SHARE * before_ns):
        return "same"
    return "slower" if delta > 0 else "faster"


def _rows(before: Mapping[str, Spent], after: Mapping[str, Spent], gain: int) -> list[ChangedRow]:
    rows = []
    for name in {**before, **after}:
        old, new = before.get(name, Spent(0)), after.get(name, Spent(0))
        old_ns, new_ns = round(old.ns), round(new.ns)
        rows.append(
            ChangedRow(
                name=name,
                change=change(old_ns, new_ns, name in before, name in after),
                before_ns=old_ns,
                after_ns=new_ns,
                before_calls=old.calls,
                after_calls=new.calls,
                explains=(new_ns - old_ns) / gain if gain else None,
            )
        )
    return sorted(rows, key=lambda row: (-abs(row.delta_ns), row.name))


def _keep_changed(rows: list[ChangedRow]) -> list[ChangedRow]:
    """Without what is the same, and what came or went without taking any time here."""
    return [row for row in rows if row.change != "same" and (row.before_ns or row.after_ns)]


def _operators(profile: Profile) -> dict[str, Spent]:
    """Self times, which sum to the whole: on the device if there is one, else on the host."""
    ns = attrgetter("host_self_ns" if profile.device_type == "cpu" else "device_self_ns")
    return _per_step(profile, ((row.name, ns(row), row.calls) for row in profile.operators))


def _kernels(profile: Profile) -> dict[str, Spent]:
    return _per_step(profile, ((row.name, row.total_ns, row.calls) for row in profile.kernels))


def _idle(profile: Profile) -> dict[str, Spent]:
    causes = profile.overview.idle.causes if profile.overview.idle else []
    return _per_step(profile, ((row.cause, row.total_ns, row.gaps) for row in causes))


def _per_step(profile: Profile, rows: Iterable[tuple[str, int, int]]) -> dict[str, Spent]:
    """Names, ns and calls of a whole file, the two as what a step has of them."""
    steps = max(profile.overview.steps, 1)
    return {name: Spent(ns / steps, calls / steps) for name, ns, calls in rows}


def _sentence(before_ns: int, after_ns: int, breakdown: list[ChangedRow]) -> str:
    old, new = show(before_ns / 1e9, "s"), show(after_ns / 1e9, "s")
    word = change(before_ns, after_ns)
    moved = [row for row in breakdown if row.change != "same"]
    if word == "same":
        inside = f" Inside them, {_move(moved[0])}." if moved else ""
        return f"Steps take the same within {percent(LEAST_SHARE)}: {old} before, {new} now.{inside}"
    ratio = max(before_ns, after_ns) / max(min(before_ns, after_ns), 1)
    head = f"Steps are {ratio:.2f} times as {'fast' if word == 'faster' else 'long'}: {old} before, {new} now"
    with_it = [row for row in moved if (row.delta_ns > 0) == (after_ns > before_ns)]
    against = [row for row in moved if (row.delta_ns > 0) != (after_ns > before_ns)]
    text = f"{head}; {_move(with_it[0])}" if with_it else head
    return f"{text}, while {_move(against[0])}." if with_it and against else f"{text}."


def _move(row: ChangedRow) -> str:
    amount = show(abs(row.delta_ns) / 1e9, "s")
    verb = "take" if row.name in ("kernel", "memcpy", "memset", "runtime", "cpu") else "takes"
    return f"{PARTS[row.name]} {verb} {amount} {'more' if row.delta_ns > 0 else 'less'}"


def _warnings(before: Profile, after: Profile) -> list[str]:
    """List the reasons why the two are hard to compare."""
    warnings = []
    if before.device_type != after.device_type:
        warnings.append(f"Other kind of device: {before.device_type} before, {after.device_type} now.")
    elif _devices(before) != _devices(after) and _devices(before) and _devices(after):
        warnings.append(f"Other accelerator: {_devices(before)} before, {_devices(after)} now.")
    for what, old, new in (
        ("ranks in the job", before.world, after.world),
        ("rank", before.rank, after.rank),
    ):
        if None not in (old, new) and old != new:
            warnings.append(f"Other {what}: {old} before, {new} now.")
    for when, profile in (("before", before), ("now", after)):
        if all(step.number == 0 for step in profile.steps):
            warnings.append(f"No steps in the file {when}: the whole of it counts as one step.")
        elif profile.overview.steps < 2:
            warnings.append(f"A single step {when}: nothing shows how much steps vary.")
    return warnings


def _devices(profile: Profile) -> str:
    return ", ".join(sorted({accelerator.name for accelerator in profile.accelerators if accelerator.name}))
