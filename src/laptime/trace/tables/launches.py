"""How the host feeds the device: calls, delays, and the queue between the two.

- launch: a call; the activities that a CUDA graph replays have one launch together.
- delay: end of the launch call to start of the work, 0 if the work began inside the call (HTA's launch
  delay). A CUDA graph has one, that of its first activity.
- queue: activities whose launch call has begun and which have not begun themselves, on all accelerators
  together. Its mean is over time: the integral over the window of the steps / the window. (HTA's summary
  weighs every change alike, however long it lasted.)

Lies when: clocks of host and device disagree. Activities without a launch in the file are in no queue.

Copies and memsets on the device are told by direction and kind of host memory."""

from typing import NamedTuple

import numpy as np
from msgspec import structs

from laptime.records.tables import CopyRow, Launches, LaunchRow
from laptime.trace import host_time, intervals, names, stacks
from laptime.trace.columns import NONE, DeviceKind, Floats, Index, Ints, Mask
from laptime.trace.tables.overview import BUCKETS
from laptime.trace.view import View, of_host

TINY = 10_000  # ns below which a kernel is tiny: about what it costs the host to launch one
MOST = 50  # operators listed


def launches(view: View) -> Launches | None:
    """Over the whole file, the queue over the window of the steps; None without any on an accelerator."""
    host, device, launch = view.trace.host, view.trace.device, view.links.launch
    if not len(device):
        return Launches(launches=0, lost=lost) if (lost := _sum_lost(view)) else None
    linked = np.flatnonzero(launch >= 0)
    length = device.end - device.start
    kernel = device.kind == DeviceKind.KERNEL
    replayed = names.rows(view.trace.texts, of_host(host.name, launch), names.is_graph_launch)
    graph: Mask = (device.graph > 0) | replayed
    tiny = kernel & (length < TINY)
    short = np.zeros(len(device), bool)
    short[linked] = length[linked] < (host.end - host.start)[launch[linked]]
    short &= kernel & ~graph
    calls = _calls(view, short)
    queue = _Queue.of(host.start[launch[linked]], device.start[linked])
    begin, end = view.window
    edges = np.linspace(begin, end, BUCKETS + 1).astype(np.int64)
    # Runtime and driver calls: name, number, ns; longest first.
    rows = np.flatnonzero(host.is_call)
    number = np.bincount(host.name[rows])
    total = np.bincount(host.name[rows], (host.end - host.start)[rows]).astype(np.int64)
    names_used = np.flatnonzero(number)
    names_used = names_used[np.lexsort((-number[names_used], -total[names_used]))]
    return Launches(
        launches=len(calls.row),
        unlaunched=len(device) - len(linked),
        lost=_sum_lost(view),
        graph=int(graph.sum()),
        delay_median_ns=_quantile(calls.delay, 0.5),
        delay_p95_ns=_quantile(calls.delay, 0.95),
        host_median_ns=_quantile(calls.host_ns, 0.5),
        short=int(short.sum()),
        tiny=int(tiny.sum()),
        tiny_ns=int(length[tiny].sum()),
        queue_mean=float(queue.means(np.array([begin, end]))[0]),
        queue_max=queue.longest(begin, end),
        queue_curve=[round(mean, 3) for mean in queue.means(edges).tolist()] if end > begin else [],
        calls=[(view.trace.texts[name], int(number[name]), int(total[name])) for name in names_used],
        per_operator=_per_operator(view, calls),
    )


def _sum_lost(view: View) -> int:
    """Calls in the window that launched a kernel or a graph of which the file has nothing."""
    host, (begin, end) = view.trace.host, view.window
    called = host.is_call & (host.start >= begin) & (host.end <= end) & (host.correlation >= 0)
    called &= names.rows(view.trace.texts, host.name, names.is_launch)
    # One launch may be seen twice, as a runtime call and as the driver call inside it.
    launched = intervals.distinct(view.trace.device.correlation)
    both = np.append(launched, host.correlation[called])
    return len(intervals.distinct(both)) - len(launched)


class _Calls(NamedTuple):
    """Calls that launched something: host rows; ns of the call and of all that it launched; ns from its end
    to the first of that; how many short activities it launched."""

    row: Index
    host_ns: Ints
    device_ns: Ints
    delay: Ints
    short: Ints


def _calls(view: View, short: Mask) -> _Calls:
    host, device, launch = view.trace.host, view.trace.device, view.links.launch
    linked = np.flatnonzero(launch >= 0)
    # Device rows are in the order of time: the first of a call is its earliest.
    rows, first, of = np.unique(launch[linked], return_index=True, return_inverse=True)
    delay = np.maximum(device.start[linked[first]] - host.end[rows], 0)
    device_ns = np.bincount(of, (device.end - device.start)[linked], len(rows)).astype(np.int64)
    few = np.bincount(of, short[linked], len(rows)).astype(np.int64)
    return _Calls(rows, host.end[rows] - host.start[rows], device_ns, delay, few)


class _Queue(NamedTuple):
    """Sorted instants at which activities enter and leave; equally many."""

    enter: Ints
    leave: Ints

    @classmethod
    def of(cls, launched: Ints, begun: Ints) -> "_Queue":
        """Work that begins before its launch (clocks that disagree) waits for no time."""
        return cls(np.sort(launched), np.sort(np.maximum(launched, begun)))

    def means(self, edges: Ints) -> Floats:
        """Mean length between each two neighbours of these instants."""
        area = _elapsed(self.enter, edges) - _elapsed(self.leave, edges)
        return np.asarray(np.diff(area) / np.maximum(np.diff(edges), 1))

    def longest(self, begin: int, end: int) -> int:
        """Most activities at one instant of [begin, end)."""
        at = np.append(begin, self.enter[(self.enter >= begin) & (self.enter < end)])
        waiting = np.searchsorted(self.enter, at, side="right") - np.searchsorted(
            self.leave, at, side="right"
        )
        return int(waiting.max(initial=0))


def _elapsed(instants: Ints, at: Ints) -> Ints:
    """For every `at`: the sum of the times that have passed since the earlier instants."""
    number = np.searchsorted(instants, at)
    return np.asarray(number * at - np.append(0, np.cumsum(instants))[number], np.int64)


def _per_operator(view: View, calls: _Calls) -> list[LaunchRow]:
    """Innermost operators that launched, most launches first."""
    operator = view.links.operator_of[calls.row]
    launched = np.flatnonzero(operator >= 0)
    name = view.trace.host.name[operator[launched]]
    operators, of = np.unique(name, return_inverse=True)
    order = np.lexsort((calls.delay[launched], of))
    bounds = np.append(np.searchsorted(of[order], np.arange(len(operators))), len(launched))
    number = np.bincount(of, minlength=len(operators))
    short, host_ns, device_ns = (
        np.bincount(of, column[launched], len(operators)).astype(np.int64)
        for column in (calls.short, calls.host_ns, calls.device_ns)
    )
    most = np.lexsort((-device_ns, -number))[:MOST]
    return [
        LaunchRow(
            operator=view.trace.texts[operators[each]],
            launches=int(number[each]),
            host_ns=int(host_ns[each]),
            device_ns=int(device_ns[each]),
            delay_median_ns=_quantile(calls.delay[launched[order[bounds[each] : bounds[each + 1]]]], 0.5),
            short=int(short[each]),
        )
        for each in most.tolist()
    ]


def _quantile(values: Ints, share: float) -> int:
    """The smallest value with at least this share of the values at or below it; 0 without any."""
    if not len(values):
        return 0
    return int(np.partition(values, at := max(0, int(np.ceil(share * len(values))) - 1))[at])


MOST_COPIES = 8  # operators listed per row


def copies(view: View) -> list[CopyRow]:
    """Over the whole file, most time first."""
    device = view.trace.device
    rows = np.flatnonzero(device.kind != DeviceKind.KERNEL).astype(np.int32)
    if not len(rows):
        return []
    direction, memory = host_time.sorts(view, rows)
    direction = np.where(device.kind[rows] == DeviceKind.MEMSET, "memset", direction)
    # Per copy: ns in which no kernel ran on its accelerator.
    exposed = device.end[rows] - device.start[rows]
    for gpu in intervals.distinct(device.device[rows]):
        kernels = (device.device == gpu) & (device.kind == DeviceKind.KERNEL)
        busy = intervals.of(device, kernels)
        mine = device.device[rows] == gpu
        exposed[mine] -= intervals.within(busy, device.start[rows[mine]], device.end[rows[mine]])
    # Which copies the host waited for: in their call, or in a synchronisation that has the same cause.
    waiting = host_time.waiting(view)
    launch = view.links.launch[rows]
    cause = np.where(launch >= 0, host_time.culprits(view, launch), NONE)
    others = host_time.culprits(view, waiting)
    waited = np.isin(launch, waiting) | ((cause >= 0) & np.isin(cause, others))
    # Which copies move a model: those before the first kernel of their device, and the one row of at least
    # `UPLOAD` that is longer than twice any other (a batch of many tensors comes again).
    kernel = view.trace.device.kind == DeviceKind.KERNEL
    uploads = np.zeros(len(rows), bool)
    if not view.steps.number.any() and len(view.steps.number) == 1:
        for gpu in intervals.distinct(device.device[rows]).tolist():
            first = device.start[kernel & (device.device == gpu)].min(initial=np.iinfo(np.int64).max)
            uploads |= (device.device[rows] == gpu) & (device.start[rows] < first) & (direction == "HtoD")
    before = np.cumsum(kernel)[rows]  # copies with as many kernels before them are one row
    _, of, number = np.unique(before[direction == "HtoD"], return_inverse=True, return_counts=True)
    if len(number) and (longest := int(number.max())) >= UPLOAD:
        others = np.delete(number, int(np.argmax(number))).max(initial=0)
        if longest > 2 * others:
            uploads[np.flatnonzero(direction == "HtoD")[of == np.argmax(number)]] = True
    table = []
    for key in sorted(set(zip(direction.tolist(), memory.tolist(), strict=True))):
        in_group = (direction == key[0]) & (memory == key[1])
        moved = rows[in_group & uploads]
        row = _row(view, key, rows[in_group], exposed[in_group], waited[in_group])
        length = int((device.end - device.start)[moved].sum())
        table.append(structs.replace(row, upload_calls=len(moved), upload_ns=length))
    return sorted(table, key=lambda row: -row.total_ns)


UPLOAD = 16  # copies to the device in one row, without a kernel between them, from which on a model is moved


def _row(view: View, key: tuple[str, str], rows: Index, exposed: Ints, waited: Mask) -> CopyRow:
    device = view.trace.device
    direction, memory = key
    length = device.end[rows] - device.start[rows]
    total, sized = int(length.sum()), device.bytes[rows] >= 0
    size, time = int(device.bytes[rows][sized].sum()), int(length[sized].sum())
    operators, stack = _causes(view, rows, length)
    return CopyRow(
        id=" ".join(word for word in key if word) or "copy",
        direction=direction,
        memory=memory,
        calls=len(rows),
        total_ns=total,
        exposed_ns=int(exposed.sum()),
        bytes=size if sized.all() else None,
        bandwidth=size * 1e9 / time if sized.any() and time else None,
        operators=operators,
        stack=stack,
        blocking="all" if waited.all() else "some" if waited.any() else "",
    )


def _causes(view: View, rows: Index, length: Ints) -> tuple[list[tuple[str, int]], list[str]]:
    """Operators that caused these copies, most time first, and the stack of the longest copy of the first."""
    host, texts = view.trace.host, view.trace.texts
    launch = view.links.launch[rows]
    linked = launch >= 0
    launch, length = launch[linked], length[linked]
    operator = host_time.culprits(view, launch)
    if not len(launch):
        return [], []
    name = np.where(operator >= 0, host.name[operator], host.name[launch])
    causes, of = np.unique(name, return_inverse=True)
    ns = np.bincount(of, length).astype(np.int64)
    order = np.argsort(-ns, kind="stable")[:MOST_COPIES].tolist()
    first = np.flatnonzero(of == order[0])
    worst = int(launch[first[np.argmax(length[first])]])
    return [(texts[causes[each]], int(ns[each])) for each in order], stacks.stack_of(view, worst)
