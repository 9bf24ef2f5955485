"""The parts of a training step on the thread that runs the loop, and the threads that ran operators.

Every instant of a step on that thread belongs to one phase; the first that fits has it:

1. `laptime::NAME` annotations (data, backward, loss, forward, optimizer), where `laptime profile` wrote them;
   the forward and backward of a closure are not the optimizer's; compute: calls of TensorFlow's functions and
   operations, which do not tell the others apart;
2. optimizer: `Optimizer.step#...` and `Optimizer.zero_grad#...`;
3. data: waiting for a DataLoader;
4. backward: the autograd engine is at work, on this thread or on its own; pauses of the engine belong to it
   as long as this thread begins nothing else;
5. forward: operators, with the pauses between them, that come before a backward; in a trace without any
   backward all operators;
6. other: the rest: operators after the backward (clipping, metrics), logging, Python.

A phase's device time is that of the work launched meanwhile, on whichever thread, whenever it ran."""

import itertools

import numpy as np

from laptime.records.overview import Phase
from laptime.trace import intervals, names, stacks
from laptime.trace.columns import NONE, HostKind, Ints, Mask
from laptime.trace.intervals import EMPTY, Ranges
from laptime.trace.names import Family
from laptime.trace.view import View, once

ORDER = ("data", "forward", "loss", "backward", "optimizer", "compute", "other")
_OWN = "laptime::"


def phases(view: View) -> list[Phase]:
    """In the order of a step; those without host time are left out. They sum to the mean step on the host."""
    claimed = claims(view)
    if not claimed:
        return []
    number = len(view.steps.number)
    # Means that sum to the rounded mean of the sum.
    sums = np.cumsum([0, *(claimed[name].total for name in ORDER)]).tolist()
    host = [round(high / number) - round(low / number) for low, high in itertools.pairwise(sums)]
    device, rows = view.trace.device, np.flatnonzero(view.links.launch >= 0)
    at, length = view.trace.host.start[view.links.launch[rows]], (device.end - device.start)[rows]
    spent = [int(length[intervals.within(each, at, at + 1) == 1].sum()) for each in claimed.values()]
    return [
        Phase(name=name, host_ns=mean, device_ns=round(work / number) if len(device) else None)
        for name, mean, work in zip(ORDER, host, spent, strict=True)
        if mean
    ]


@once
def claims(view: View) -> dict[str, Ranges]:
    """The time of each phase, in the order of a step; {} if no thread runs the loop."""
    thread = loop_thread(view)
    if thread == NONE:
        return {}
    left = intervals.union(view.steps.host_start, view.steps.host_end)
    claimed = dict.fromkeys(ORDER, EMPTY)
    for name, ranges in _claims(view, thread):
        claimed[name] = intervals.join(claimed[name], intervals.intersect(left, ranges))
        left = intervals.subtract(left, ranges)
    return {**claimed, "other": left}


def threads(view: View) -> tuple[int, float | None]:
    """How many host threads ran operators in the window of the steps, and how many of them at the same time,
    on average; None without any. Threads inside an operator (OpenMP, oneDNN) are not in a trace."""
    host = view.trace.host
    begin, end = view.window
    runs = operators(view) & (host.end > begin) & (host.start < end)
    number, busy = 0, 0
    for thread in np.unique(host.thread[runs]).tolist():
        number += 1
        busy += intervals.clip(cover(view, runs, thread), begin, end).total
    return number, busy / (end - begin) if number and end > begin else None


@once
def loop_thread(view: View) -> int:
    """The thread that runs the loop: that of the steps, else of the loader, if it runs operators or calls;
    else the one with the most operators outside autograd."""
    host = view.trace.host
    runs = operators(view)
    computes = find_rows(view, names.matching(f"^{_OWN}compute$"))
    if computes.any():  # TensorFlow: the loop calls, threads of a pool run the operators
        return int(host.thread[np.argmax(computes)])
    worked = np.bincount(host.thread[at_work(view)], minlength=len(view.trace.threads)) > 0
    loading = find_rows(view, _is_own) | find_rows(view, names.is_dataloader)
    for rows in (find_rows(view, names.is_step), loading):
        if rows.any() and worked[thread := int(np.bincount(host.thread[rows]).argmax())]:
            return thread
    for rows in (runs & ~of_autograd(view), at_work(view), find_rows(view, names.is_step)):
        if rows.any():
            return int(np.bincount(host.thread[rows]).argmax())
    return NONE


@once
def loading(view: View) -> Mask:
    """Host rows that wait for a DataLoader, under all of its names."""
    return find_rows(view, lambda texts: names.is_dataloader(texts) | _is_loading(texts))


@once
def operators(view: View) -> Mask:
    """Host rows that are operators; old traces have their steps among them, and those are none."""
    operator: Mask = view.trace.host.kind == HostKind.OPERATOR
    return operator & ~find_rows(view, names.is_step)


@once
def at_work(view: View) -> Mask:
    """Host rows that are operators, runtime or driver calls."""
    return view.trace.host.is_call | operators(view)


def find_rows(view: View, family: Family) -> Mask:
    """Host rows with such a name that are no runtime calls."""
    return names.rows(view.trace.texts, view.trace.host.name, family)


def cover(view: View, take: Mask, thread: int) -> Ranges:
    """The time that host rows of one thread cover, Python functions that a file lists elsewhere included."""
    host = view.trace.host
    rows = host.of_thread(thread)
    rows = rows[take[rows]]
    home = int(stacks.frames_of(view).home[thread])
    if home != thread:
        frames = host.of_thread(home)
        rows = np.append(rows, frames[take[frames] & (host.kind[frames] == HostKind.PYTHON)])
    return intervals.of(host, rows)


def _claims(view: View, thread: int) -> list[tuple[str, Ranges]]:
    """The ranges of the loop's thread that each phase claims, by precedence: an earlier phase wins."""
    written = find_rows(view, _is_own)
    ranges = dict.fromkeys(("data", "backward", "loss", "forward", "optimizer", "compute"), EMPTY)
    for name in ranges if written.any() else ():
        ranges[name] = cover(view, written & find_rows(view, names.matching(f"^{_OWN}{name}$")), thread)
    optimizer = intervals.join(ranges["optimizer"], cover(view, find_rows(view, names.is_optimizer), thread))
    data = intervals.join(ranges["data"], cover(view, loading(view), thread))
    running = cover(view, operators(view), thread)
    elsewhere = intervals.join(optimizer, data)
    # When the autograd engine worked, its pauses in which this thread was not `busy` included.
    host = view.trace.host
    engine = of_autograd(view) & operators(view)
    theirs = np.unique(host.thread[engine])
    theirs = theirs[theirs != thread]
    rows = (engine & (host.thread == thread)) | (operators(view) & np.isin(host.thread, theirs))
    backward = _without_pauses(intervals.of(host, rows), intervals.join(running, elsewhere))
    backward = intervals.join(ranges["backward"], backward)
    plain = intervals.subtract(intervals.subtract(running, elsewhere), backward)
    # Stretches of plain operators that a backward follows before the next batch or step; all without any.
    begins = view.steps.host_start
    busy = intervals.join(elsewhere, backward, Ranges(begins, begins + 1))
    stretches = _without_pauses(plain, busy)
    leads = np.ones(len(stretches.end), bool)
    if len(backward.start):
        next_batch = np.minimum(_following(data.start, stretches.end), _following(begins, stretches.end))
        leads = _following(backward.start, stretches.end) < next_batch
    forward = Ranges(stretches.start[leads], stretches.end[leads])
    if ranges["compute"].total:  # nothing tells forward and backward apart
        forward = EMPTY
    return [
        *ranges.items(),
        ("optimizer", optimizer),
        ("data", data),
        ("backward", backward),
        ("loss" if ranges["forward"].total else "forward", forward),
    ]


def _without_pauses(ranges: Ranges, busy: Ranges) -> Ranges:
    """The ranges with every pause between two of them filled in which nothing else was busy."""
    pause = Ranges(ranges.end[:-1], ranges.start[1:])
    filled = intervals.within(busy, pause.start, pause.end) == 0
    return intervals.join(ranges, Ranges(pause.start[filled], pause.end[filled]))


def _following(instants: Ints, after: Ints) -> Ints:
    """For every instant the first of the others at or after it; the end of time without."""
    return np.append(np.sort(instants), np.iinfo(np.int64).max)[np.searchsorted(np.sort(instants), after)]


def of_autograd(view: View) -> Mask:
    """Host rows of the autograd engine: its own ranges, and operators that know their forward's thread."""
    return find_rows(view, _is_autograd) | (view.trace.host.forward_thread > 0)


_is_own = names.matching(rf"^{_OWN}(data|forward|loss|backward|optimizer|compute)$")
_is_autograd = names.matching(r"^(autograd::engine|torch::autograd)::|Backward\d*$")
_is_loading = names.matching(rf"^{_OWN}data$|torch[/\\]utils[/\\]data[/\\]dataloader\.py\(\d+\): __next__$")
