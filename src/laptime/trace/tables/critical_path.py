"""The critical path of the step nearest the median: walked from its end to its begin, told by kind and name.

Each instant belongs to what was waited for then:

    device work   began because of what came last before it: the end of the activity before it on its stream,
                  or the end of its launch call. If both leave a gap in which work of another stream of the
                  device ended, it waited for that one: waits between streams are in no file.
    launch call   the host, from there on back on its thread.
    host          goes back to what it waited for: inside a call that waits for the device, the activity that
                  ended last. A thread that is not at work was waiting for another one: the loop's, else the
                  busiest that is.

So every instant of the step is on the path once. To shorten what is not on it does not shorten the step; to
shorten what is on it does, until another chain is the longest.

Source: the idea of HTA's critical path analysis, which builds a graph of all dependencies first.

Lies when: clocks of host and device disagree; work of another stream ends by chance where a gap waits for
something else."""

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np

from laptime.records.tables import CriticalPath, Link, PathRow
from laptime.trace import host_time, intervals, names, phases, stacks
from laptime.trace.columns import NONE, DeviceKind, Ints
from laptime.trace.intervals import Ranges
from laptime.trace.tables.timeline import typical
from laptime.trace.view import View

MOST = 40  # Rows; the rest of a kind is one row without a name


class _Piece(NamedTuple):
    """A part with its kind and name; `row` is a host row whose stack tells where it comes from."""

    kind: Link
    name: str
    ns: int
    row: int


def critical_path(view: View) -> CriticalPath | None:
    """None for a file without operators, calls or device work."""
    step = typical(view.steps)
    begin, end = int(view.steps.start[step]), int(view.steps.end[step])
    if phases.loop_thread(view) == NONE or end <= begin:
        return None
    parts = walk(view, begin, end)
    pieces = [*_of_device(view, parts), *_of_host(view, parts)]
    kinds = Counter[str]()
    for piece in pieces:
        kinds[piece.kind] += piece.ns
    return CriticalPath(
        step=int(view.steps.number[step]),
        total_ns=end - begin,
        kinds_ns=dict(kinds.most_common()),
        rows=_rows(view, pieces),
    )


def _of_device(view: View, parts: "list[Part]") -> Iterator[_Piece]:
    device, texts, links = view.trace.device, view.trace.texts, view.links
    parts = [part for part in parts if part.row != NONE]
    rows = np.array([part.row for part in parts], np.int64)
    moves = (device.kind[rows] != DeviceKind.KERNEL).tolist()
    talks = names.rows(texts, device.name[rows], names.is_communication).tolist()
    operator = links.operator[rows]
    cause = np.where(operator >= 0, operator, links.launch[rows]).tolist()
    for part, name, moved, talked, row in zip(
        parts, device.name[rows].tolist(), moves, talks, cause, strict=True
    ):
        if part.kind == "device":
            kind: Link = "copy" if moved else "communication" if talked else "kernel"
            yield _Piece(kind, texts[name] if name >= 0 else "", part.end - part.start, row)
        else:
            yield _Piece("gap" if part.kind == "gap" else "latency", "", part.end - part.start, row)


def _of_host(view: View, parts: "list[Part]") -> Iterator[_Piece]:
    """The host's parts, split by what its thread did; the innermost operator or function names them."""
    # Per host row what it does, an index into _HOST; what lies in a wait or a collective is part of it.
    outer = np.full(len(view.trace.host), NONE, np.int32)
    outer[host_time.waiting(view)] = _HOST.index("synchronisation")
    outer[phases.find_rows(view, names.is_host_collective)] = _HOST.index("communication")
    around = intervals.inherit(view.links.calls, outer)
    own = np.where(phases.operators(view), 1, 0)
    own[view.trace.host.is_call] = _HOST.index("launch")
    kinds = np.where(around >= 0, around, own).astype(np.int32)
    for thread in dict.fromkeys(part.thread for part in parts if part.thread != NONE):
        mine = [part for part in parts if part.thread == thread]
        spent = intervals.union(
            np.array([part.start for part in mine]), np.array([part.end for part in mine])
        )
        data = intervals.intersect(spent, phases.cover(view, phases.loading(view), thread))
        rest, silent = intervals.subtract(spent, data), host_time.find_unexplained(view)
        told: dict[Link, Ranges] = {
            "data": data,
            "unrecorded": intervals.intersect(rest, silent),
            "python": intervals.subtract(rest, silent),
        }
        for kind, ranges in told.items():
            if not len(ranges.start):
                continue
            left, shares = ranges.total, host_time.innermost(view, thread, ranges)
            for row, name, ns in zip(*(column.tolist() for column in shares), strict=True):
                text = view.trace.texts[name] if name >= 0 else ""
                yield _Piece(kind if kind == "data" else _HOST[kinds[row]], text, ns, row)
                left -= ns
            if left:
                yield _Piece(kind, "", left, NONE)


_HOST: tuple[Link, ...] = ("python", "operator", "launch", "synchronisation", "communication")


def _rows(view: View, pieces: list[_Piece]) -> list[PathRow]:
    """Sum parts by kind and name, longest first; small ones of a kind together."""
    found = defaultdict[tuple[Link, str], list[_Piece]](list)
    for piece in pieces:
        found[piece.kind, piece.name].append(piece)
    order = sorted(found, key=lambda key: (-sum(piece.ns for piece in found[key]), key))
    for kind, name in order[MOST:]:
        if name:
            found[kind, ""] += found.pop((kind, name))
    rows = [_row(view, kind, name, each) for (kind, name), each in found.items()]
    return sorted(rows, key=lambda row: (-row.total_ns, row.id))


def _row(view: View, kind: Link, name: str, pieces: list[_Piece]) -> PathRow:
    longest = max(pieces, key=lambda piece: piece.ns)
    return PathRow(
        id=f"{kind} {name}".rstrip(),
        kind=kind,
        name=name,
        total_ns=sum(piece.ns for piece in pieces),
        parts=len(pieces),
        longest_ns=longest.ns,
        stack=stacks.stack_of(view, longest.row) if longest.row != NONE and name else [],
    )


class Part(NamedTuple):
    """A stretch of the path, [start, end) in ns."""

    start: int
    end: int
    kind: str  # device, gap, latency or host
    row: int  # device row that ran, or that is about to run; NONE on the host
    thread: int  # of the host; NONE on the device


def walk(view: View, begin: int, end: int) -> list[Part]:
    """The path through [begin, end), in time order; its parts touch each other and cover all of it."""
    device, host = _Device(view, begin, end), _HostCalls(view, begin, end)
    parts: list[Part] = []
    at, row, thread = end, device.last_in(end - 1, end), phases.loop_thread(view)

    def add(start: int, kind: str) -> None:
        nonlocal at
        start = max(start, begin)
        if start < at:
            parts.append(Part(start, at, kind, *((NONE, thread) if kind == "host" else (row, NONE))))
        at = min(at, start)

    while at > begin:
        if row == NONE:
            thread, start, row = host.before(at, thread, device)
            add(start, "host")
            continue
        add(int(view.trace.device.start[row]), "device")
        before, launch = device.before(row)
        if before != NONE:
            add(int(view.trace.device.end[before]), "gap")
            row = before
        else:
            called = min(at, int(view.trace.host.end[launch])) if launch != NONE else at
            add(called, "latency")
            row, thread = NONE, int(view.trace.host.thread[launch]) if launch != NONE else thread
    return parts[::-1]


class _Device:
    """Device work that ended in a window. Work of no length is left out: it decides nothing."""

    def __init__(self, view: View, begin: int, end: int) -> None:
        work = view.trace.device
        self._view = view
        inside = np.flatnonzero((work.end > begin) & (work.end <= end) & (work.end > work.start))
        order = inside[np.argsort(work.end[inside], kind="stable")]
        self._all = _Ends(work.end, order)
        self._of_device = {
            number: _Ends(work.end, order[work.device[order] == number])
            for number in intervals.distinct(work.device[order]).tolist()
        }
        streams = np.stack([work.device[order], work.stream[order]]) if len(order) else np.empty((2, 0), int)
        self._of_stream = {
            (int(number), int(stream)): _Ends(
                work.end, order[(work.device[order] == number) & (work.stream[order] == stream)]
            )
            for number, stream in np.unique(streams, axis=1).T.tolist()
        }

    def last_in(self, after: int, until: int) -> int:
        """The work that ends last in (after, until]; NONE without."""
        row = self._all.last(until)
        return row if row != NONE and int(self._view.trace.device.end[row]) > after else NONE

    def before(self, row: int) -> tuple[int, int]:
        """Return what work waited for: other work, or its launch call (a host row); NONE for the other."""
        work, launch = self._view.trace.device, int(self._view.links.launch[row])
        start, number = int(work.start[row]), int(work.device[row])
        called = int(self._view.trace.host.end[launch]) if launch != NONE else -1
        on_stream = self._of_stream[number, int(work.stream[row])].last(start)
        least = called if on_stream == NONE else max(called, int(work.end[on_stream]))
        elsewhere = self._of_device[number].last(start)
        if elsewhere != NONE and int(work.end[elsewhere]) > least:
            return elsewhere, NONE
        if on_stream != NONE and int(work.end[on_stream]) >= min(called, start):
            return on_stream, NONE
        return NONE, launch


class _Ends:
    """Rows by their ends."""

    def __init__(self, ends: Ints, rows: Ints) -> None:
        self._rows: list[int] = rows.tolist()
        self._ends: list[int] = ends[rows].tolist()

    def last(self, until: int) -> int:
        """The last row that ends at or before an instant; NONE without."""
        at = bisect_right(self._ends, until) - 1
        return self._rows[at] if at >= 0 else NONE


class _HostCalls:
    """When threads were at work in a window, and which of their calls waited for the device."""

    def __init__(self, view: View, begin: int, end: int) -> None:
        host = view.trace.host
        self._loop = phases.loop_thread(view)
        self._ends = view.trace.device.end
        working = phases.at_work(view) | phases.loading(view)
        inside = np.flatnonzero(working & (host.end > begin) & (host.start < end))
        threads, busy = np.unique(host.thread[inside], return_counts=True)
        preferred = dict.fromkeys([self._loop, *threads[np.argsort(-busy, kind="stable")].tolist()])
        self._work = {
            thread: _Stretches.of(intervals.clip(phases.cover(view, working, thread), begin, end))
            for thread in preferred
        }
        self._first = _first_at_work([*self._work.items()])
        waiting = host_time.waiting(view)
        waiting = waiting[(host.end[waiting] > begin) & (host.start[waiting] < end)]
        self._waits = {
            thread: _Stretches.of(intervals.of(host, rows))
            for thread in intervals.distinct(host.thread[waiting]).tolist()
            if len(rows := waiting[host.thread[waiting] == thread])
        }

    def before(self, at: int, thread: int, device: _Device) -> tuple[int, int, int]:
        """Who was at work before an instant, since when, and the device work that it waited for then; NONE
        without."""
        thread, since = self._at_work(at, thread)
        calls = self._waits.get(thread, _Stretches([], []))
        place = bisect_left(calls.start, at) - 1
        while place >= 0 and calls.end[place] > since:
            waited = device.last_in(max(since, calls.start[place]), min(at, calls.end[place]))
            if waited != NONE:
                return thread, int(self._ends[waited]), waited
            place -= 1
        return thread, since, NONE

    def _at_work(self, at: int, thread: int) -> tuple[int, int]:
        """The thread that was at work just before an instant, and since when; the loop's since the last work
        of any, if none was."""
        if (since := self._work[thread].around(at) if thread in self._work else NONE) != NONE:
            return thread, since
        stretches, owners = self._first
        place = bisect_left(stretches.start, at) - 1
        if place < 0:
            return self._loop, NONE
        if stretches.end[place] < at:
            return self._loop, stretches.end[place]
        return owners[place], self._work[owners[place]].around(at)


class _Stretches(NamedTuple):
    """Ranges in time order that do not overlap, for one look at a time."""

    start: list[int]
    end: list[int]

    @classmethod
    def of(cls, ranges: Ranges) -> "_Stretches":
        return cls(ranges.start.tolist(), ranges.end.tolist())

    def around(self, at: int) -> int:
        """Return where the stretch begins that goes on until an instant or beyond; NONE without."""
        place = bisect_left(self.start, at) - 1
        return self.start[place] if place >= 0 and self.end[place] >= at else NONE


def _first_at_work(work: list[tuple[int, _Stretches]]) -> tuple[_Stretches, list[int]]:
    """When any thread was at work, and for each stretch the first in the list that was."""
    starts = sorted(
        (start, rank, end)
        for rank, (_, each) in enumerate(work)
        for start, end in zip(each.start, each.end, strict=True)
    )
    stretches, owners = _Stretches([], []), list[int]()
    running: list[tuple[int, int]] = []
    now, place = 0, 0
    while place < len(starts) or running:
        if not running:
            now = starts[place][0]
        while place < len(starts) and starts[place][0] <= now:
            _, rank, end = starts[place]
            heappush(running, (rank, end))
            place += 1
        rank, end = running[0]
        if end <= now:
            heappop(running)
            continue
        until = min(end, starts[place][0]) if place < len(starts) else end
        stretches.start.append(now)
        stretches.end.append(until)
        owners.append(work[rank][0])
        now = until
    return stretches, owners
