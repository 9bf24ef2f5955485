"""Work of the host that launches nothing for a while: initialisation, capture, compiling, preprocessing ...

Launching faster does not shorten it, so it is told apart from launching. Kinds claim the time in the order of
`_KINDS`: an instant counts once. What is left between two launches further apart than `FAR` and than `MANY`
times their usual distance is a `stretch`; where `FAR` is usual, each is one.

Lies when: a function is called like one that prepares samples and does something else; or a loop of many
threads prepares on one while it launches from another."""

from collections import Counter
from collections.abc import Callable

import numpy as np

from laptime.records.profile import EmptyWait, HostWork, HostWorkKind
from laptime.trace import host_time, intervals, names, phases, stacks
from laptime.trace.columns import NONE, HostKind, Index, Ints, Mask
from laptime.trace.intervals import EMPTY, Ranges
from laptime.trace.view import View, of_host, once

FAR = 1_000_000
MANY = 20  # ns, and times the usual distance, from which on two launches are far apart
LONG = 1_000_000  # ns from which on a call that makes a context or loads a library is told
ONCE = 16  # long calls of one name in a file without steps; more of them are a habit and no beginning
NAMED = 12  # Ranges, the longest ones, that are looked into for what the host was doing
MOST = 5
COVERS = 0.3  # share of a stretch from which on a function in it is named
_is_capture_begin = names.matching("StreamBeginCapture")
_is_capture_end = names.matching("StreamEndCapture")
_is_instantiation = names.matching("Graph(Instantiate|Upload|ExecUpdate)")
_makes_context = names.matching(
    r"^(cuda|hip)(Free|Malloc\w*|HostAlloc|MallocHost|HostMalloc|SetDevice|GetDeviceCount|Init)$"
    r"|^(cu|hip)(ModuleLoad\w*|LibraryLoad\w*|CtxCreate\w*|DevicePrimaryCtxRetain|Init|ModuleGetFunction"
    r"|LibraryGetKernel|KernelGetFunction)$|^cuda(StreamCreate\w*|EventCreate\w*|FuncGetAttributes"
    r"|OccupancyMax\w*|FuncSetAttribute|DeviceGetStreamPriorityRange)$"
)
_frees = names.matching(r"(Free|Malloc)\w*$")
_synchronises = names.matching("Synchronize")
_is_convolution = names.matching(r"(cudnn|miopen)_(de)?conv\w*|convolution_(backward|overrideable)")


def host_work(view: View) -> list[HostWork]:
    """One row a kind, most time first; [] if nothing of it is in the window."""
    on_host = intervals.union(view.steps.host_start, view.steps.host_end)
    window = intervals.intersect(view.inside, on_host)
    window = window if len(window.start) else view.inside
    idle = _idle(view)
    taken, rows = EMPTY, list[HostWork]()
    for kind, find in _KINDS.items():
        ranges = intervals.subtract(intervals.intersect(find(view), window), taken)
        if kind == "stretch":
            ranges = _long(ranges)
        taken = intervals.join(taken, ranges)
        if len(ranges.start):
            rows.append(_row(view, kind, ranges, idle))
    return sorted(rows, key=lambda row: -row.host_ns)


def _idle(view: View) -> Ranges:
    """When no accelerator works; all of the steps without one."""
    device = view.trace.device
    return intervals.subtract(view.inside, intervals.union(device.start, device.end))


@once
def _threads(view: View) -> list[int]:
    """The thread of the loop, and those that launch."""
    launch = view.links.launch[view.links.launch >= 0]
    threads = {phases.loop_thread(view), *intervals.distinct(view.trace.host.thread[launch]).tolist()}
    return sorted(threads - {NONE})


def _cover(view: View, take: Mask) -> Ranges:
    return intervals.join(EMPTY, *(phases.cover(view, take, thread) for thread in _threads(view)))


def _find_calls(view: View, family: names.Family) -> Index:
    return np.flatnonzero(host_time.calls(view, family)).astype(np.int32)


def _capture(view: View) -> Ranges:
    """Return ranges from the begin of each capture to its end, and instantiating the captured graphs."""
    host = view.trace.host
    begins, ends = _find_calls(view, _is_capture_begin), _find_calls(view, _is_capture_end)
    made = _find_calls(view, _is_instantiation)
    start = np.sort(host.start[begins])
    at = np.searchsorted(np.sort(host.end[ends]), start)
    closed = at < len(ends)
    captured = Ranges(start[closed], np.sort(host.end[ends])[at[closed]])
    return intervals.join(intervals.union(captured.start, captured.end), intervals.of(host, made))


def _initialisation(view: View) -> Ranges:
    """Long calls that make something for the first time, while the device has nothing to do.

    A launch is one if it takes `MANY` times what launches take: the first of a kernel loads its module."""
    host = view.trace.host
    rows = _find_calls(view, _makes_context)
    launched = _find_calls(view, names.is_launch)
    length = host.end[launched] - host.start[launched]
    length -= intervals.within(host_time.profiling(view), host.start[launched], host.end[launched])
    if len(launched):
        rows = np.append(rows, launched[length >= max(LONG, MANY * int(np.median(length)))])
    idle = intervals.within(_idle(view), host.start[rows], host.end[rows])
    length = host.end[rows] - host.start[rows]
    rows = rows[(length >= LONG) & (idle > 0.9 * length)]
    often = max(ONCE if len(view.steps.number) == 1 else len(view.steps.number) - 1, 1)
    number = np.bincount(host.name[rows], minlength=1)
    rows = rows[number[host.name[rows]] <= often] if len(rows) else rows
    return intervals.of(host, rows)


def _autotuning(view: View) -> Ranges:
    """Ranges that try kernels, and convolutions that waited for the device inside."""
    host, tries = view.trace.host, phases.find_rows(view, names.is_autotuning) & ~view.trace.host.is_call
    waiting = np.intersect1d(host_time.waiting(view), _find_calls(view, _synchronises))
    around = view.links.operator_of[waiting]
    tried = names.rows(view.trace.texts, of_host(host.name, around), _is_convolution)
    trying = intervals.distinct(around[tried])
    return intervals.join(_cover(view, tries), intervals.of(host, trying))


def _ranges_of(family: names.Family) -> Callable[[View], Ranges]:
    """Ranges of this family on the threads that matter, without waiting for a DataLoader."""

    def find(view: View) -> Ranges:
        ranges = _cover(view, phases.find_rows(view, family) & ~view.trace.host.is_call)
        return intervals.subtract(ranges, _cover(view, phases.loading(view))) if len(ranges.start) else EMPTY

    return find


def _stretches(view: View) -> Ranges:
    """Between two launches that are far apart: without waiting for data, for the device or for ranks, without
    calls, and without operators of which one is hardly more than a launch would be."""
    host = view.trace.host
    launched = intervals.distinct(view.links.launch[view.links.launch >= 0])
    if not len(launched):
        return EMPTY
    start, end = np.sort(host.start[launched]), np.maximum.accumulate(np.sort(host.end[launched]))
    low, high = int(view.steps.host_start.min()), int(view.steps.host_end.max())
    begin, stop = np.append(low, end), np.append(start, high)
    usual = int(np.median(stop - begin)) if len(launched) > MANY else 0
    far = stop - begin >= max(FAR, MANY * usual if usual < FAR else 0)
    other = phases.loading(view) | phases.find_rows(view, names.is_host_collective) | view.trace.host.is_call
    operator = phases.operators(view)
    other |= operator
    # Operators without an operator inside that take long by themselves compute on the host.
    long = np.flatnonzero(operator & (host.end - host.start >= FAR))
    other[long[~np.isin(long, view.links.operator_around(np.flatnonzero(operator)))]] = False
    shown = intervals.subtract(Ranges(begin[far], stop[far]), host_time.find_unexplained(view))
    return _long(intervals.subtract(shown, _cover(view, other)))


def _long(ranges: Ranges) -> Ranges:
    """Return those that are no shorter than `FAR`."""
    long = ranges.end - ranges.start >= FAR
    return Ranges(ranges.start[long], ranges.end[long])


_FAMILIES: dict[HostWorkKind, names.Family] = {
    "compilation": names.is_compilation,
    "collection": names.is_collection,
    "preprocessing": names.is_preprocessing,
}
_KINDS: dict[HostWorkKind, Callable[[View], Ranges]] = {
    "capture": _capture,
    "initialisation": _initialisation,
    "autotuning": _autotuning,
    "compilation": _ranges_of(names.is_compilation),
    "collection": _ranges_of(names.is_collection),
    "preprocessing": _ranges_of(names.is_preprocessing),
    "stretch": _stretches,
}


def _row(view: View, kind: HostWorkKind, ranges: Ranges, idle: Ranges) -> HostWork:
    length = ranges.end - ranges.start
    # Rows long enough to be named, of the threads that matter and of the kind's family; steps are none.
    host = view.trace.host
    threads = _threads(view)
    homes = [int(stacks.frames_of(view).home[thread]) for thread in threads]
    long = host.end - host.start >= COVERS * LONG
    keep = long & np.isin(host.thread, [*threads, *homes]) & ~phases.find_rows(view, names.is_step)
    keep &= host.is_call if kind in ("initialisation", "capture") else ~host.is_call
    if kind in _FAMILIES:
        keep &= phases.find_rows(view, _FAMILIES[kind])
    candidates = np.flatnonzero(keep).astype(np.int32)
    doing, row = Counter[str](), NONE
    longest = np.argsort(-length, kind="stable")[:NAMED]
    for begin, end in np.stack(ranges, axis=1)[longest].tolist():
        found = _inside(view, candidates, begin, end)
        row = found if row == NONE else row
        if found == NONE:
            name = "Python"
        else:
            text = int(view.trace.host.name[found])
            name = stacks.frames_of(view).texts.get(text, view.trace.texts[text])
        doing[name] += end - begin
    if row == NONE:
        stack = []
    else:
        own = [stacks.frames_of(view).texts[int(host.name[row])]] if host.kind[row] == HostKind.PYTHON else []
        stack = own + stacks.stack_of(view, row)
    return HostWork(
        kind=kind,
        calls=len(length),
        host_ns=ranges.total,
        longest_ns=int(length.max()),
        idle_ns=intervals.intersect(ranges, idle).total,
        names=doing.most_common(MOST),
        stack=stack,
    )


def _inside(view: View, rows: Index, begin: int, end: int) -> int:
    """Which of these host rows says best what these instants were: the outermost range in them that covers
    much of them, else the innermost around them. NONE without."""
    host = view.trace.host
    slack = (end - begin) // 20
    middle: Ints = np.minimum(host.end[rows], end) - np.maximum(host.start[rows], begin)
    within = rows[(host.start[rows] >= begin - slack) & (host.end[rows] <= end + slack)]
    within = within[(host.end[within] - host.start[within]) >= COVERS * (end - begin)]
    if len(within):
        return int(within[np.argmax(host.end[within] - host.start[within])])
    around = rows[middle >= 0.9 * (end - begin)]
    return int(around[np.argmin(host.end[around] - host.start[around])]) if len(around) else NONE


def empty_waits(view: View) -> list[EmptyWait]:
    """Calls that waited for the device while the file shows no work of it, longest first.

    Making a context is no such wait, nor is freeing memory."""
    host, texts, steps = view.trace.host, view.trace.texts, view.steps
    rows = host_time.waiting(view)
    rows = rows[~names.rows(texts, host.name[rows], _frees)]
    rows = rows[(host.start[rows] >= steps.host_start.min()) & (host.start[rows] < steps.host_end.max())]
    rows = rows[np.isin(host.thread[rows], _threads(view))]
    idle = intervals.within(_idle(view), host.start[rows], host.end[rows])
    table = []
    for name in intervals.distinct(host.name[rows]).tolist():
        mine = host.name[rows] == name
        length = (host.end - host.start)[rows[mine]]
        if idle[mine].sum():
            waited, empty = int(length.sum()), int(idle[mine].sum())
            table.append(EmptyWait(call=texts[name], calls=len(length), wait_ns=waited, idle_ns=empty))
    return sorted(table, key=lambda row: -row.idle_ns)
