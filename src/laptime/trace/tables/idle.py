"""Why the device was idle in the steps: every gap between two activities, attributed to the nanosecond.

A gap [g0, g1) ends with an activity, and that was launched by a call [l0, l1) on a host thread:

    host    ...──sync──┤ Python ├─ loader ─┤ operators ─┤ launch ├── next operators ...
    device  ▓▓▓▓▓▓▓▓▓▓▓│                                    │      │▓▓▓▓▓▓▓▓
                       g0                                  l0     l1  g1
                       └──────────── before l1 ─────────────────────┘└─┘ launched

What lies after l1 is `other`: launched, and not begun. What lies before l1 is told by the launching thread
where it was at work, else by the thread that runs the loop, else by another launching thread. Causes in this
order, each takes only what the one before left:

- data: waiting for a DataLoader;
- communication: a collective that the host carries out (gloo, mpi, ucc);
- synchronisation: inside another call that waits for the device (host_time.py);
- copy: inside a copy to the device that the host carries out (pageable memory is staged) or waits for;
- the rest is the host at work. It is `synchronisation` as far as a wait for the device had cost the host its
  lead, and `host` beyond: late without any wait, too; `unrecorded` instead of `host` if no event says what
it did, and wherever the profiler itself was at work (host_time.py).

Lead: a wait that lasted w ns while the device was busy puts the host back by w; without it, it would have
come w earlier to all that follows. Idle time uses this up, whatever its cause; waits add up, to one mean step
at most. So `loss.item()` at the end of a step that keeps the device busy is blamed for the hole after it, and
in a step whose launches are too slow anyway it is blamed for nothing.

An activity without a launch in the file tells nothing: `data` as far as the loop waited for its loader, else
`other`. After the last activity of the file the loop's thread speaks for the whole gap.

The parts sum to the idle time exactly. With several accelerators, all are summed. A device that waits for
other ranks is busy with a collective's kernel: that is no gap (see `exposed_communication_ns`).

Lies when: a call waits and neither its name nor its times say so; clocks of host and device disagree by more
than a launch takes; two programs share the device; the profiler slows the host down more than the device."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import NamedTuple, get_args

import numpy as np

from laptime.records.overview import Cause, Idle, IdleCause
from laptime.trace import host_time, intervals, names, phases, stacks
from laptime.trace.columns import NONE, Index, Ints, Mask
from laptime.trace.host_time import Shares
from laptime.trace.intervals import Ranges
from laptime.trace.view import View

Part = tuple[int, Cause, Ranges]  # idle time of an accelerator with one cause
MOST = 8  # operators listed per cause
PYTHON = "Python"
"""What the host is doing if no operator, annotation or Python function of the trace is around."""


def idle(view: View, parts: list[Part] | None = None) -> Idle | None:
    """Causes by time, those without time left out; None without work of an accelerator in the window.

    `parts` gets every part of a gap."""
    device = view.trace.device
    inside = intervals.within(view.inside, device.start, device.end) > 0
    used_devices = intervals.distinct(device.device[inside]).tolist()
    if not used_devices:
        return None
    ledger, host = _Ledger(view, [] if parts is None else parts), _Host(view)
    for device_id in used_devices:
        rows = np.flatnonzero(device.device == device_id).astype(np.int32)
        busy = intervals.of(device, rows)
        gaps = _gaps(view, rows, busy)
        ledger.open(gaps, device_id)
        # From the end of the launch to the beginning of the work.
        launched = gaps.thread >= 0
        queued = launched & (gaps.launched == gaps.start)
        for chosen, text in ((queued, "between launched activities"), (launched & ~queued, "launch latency")):
            ledger.add("other", Ranges(gaps.launched[chosen], gaps.end[chosen]))
            ledger.label("other", text, int((gaps.end - gaps.launched)[chosen].sum()))
        _before_launch(ledger, host, gaps, busy)
    return Idle(
        total_ns=ledger.total, window_ns=view.inside.total * len(used_devices), causes=ledger.causes()
    )


class _Gaps(NamedTuple):
    """Gaps of one accelerator, in time order.

    `launched` is l1, cut to the gap; `thread` that of the launch; after the last activity that of the loop;
    NONE if the file has no launch."""

    start: Ints
    end: Ints
    launched: Ints
    thread: Index


def _gaps(view: View, rows: Index, busy: Ranges) -> _Gaps:
    """Gaps between these device rows in the window, and what launched the activities that end them."""
    host, device = view.trace.host, view.trace.device
    start, end = intervals.subtract(view.inside, busy)
    following = np.searchsorted(device.start[rows], end)
    last = following == len(rows)
    launch = np.where(last, NONE, view.links.launch[rows[np.minimum(following, len(rows) - 1)]])
    thread = np.where(launch >= 0, host.thread[launch] if len(host) else NONE, NONE)
    thread[last] = phases.loop_thread(view)
    launched = np.where(launch >= 0, host.end[launch] if len(host) else end, end)
    return _Gaps(start, end, np.clip(launched, start, end), thread.astype(np.int32))


class _Host:
    """The host side of a trace as the gaps need it: what each thread did, computed once.

    waiting: rows of calls that waited for the device; delays: those on threads that matter, by their end.
    uploads: rows of calls that copied to the device themselves, or waited for such a copy. collective: rows
    of collectives that the host carries out. loop: the thread of the loop. launching: those that launch."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.loop = phases.loop_thread(view)
        launch = view.links.launch[view.links.launch >= 0]
        self.launching: list[int] = intervals.distinct(view.trace.host.thread[launch]).tolist()
        self.collective = np.flatnonzero(phases.find_rows(view, names.is_host_collective)).astype(np.int32)
        self.waiting = host_time.waiting(view)
        on_loop = np.isin(view.trace.host.thread[self.waiting], [self.loop, *self.launching])
        self.delays = self.waiting[on_loop]
        self.delays = self.delays[np.argsort(view.trace.host.end[self.delays], kind="stable")]
        self.uploads = host_time.uploads(view)
        self._loading = phases.loading(view)
        self._working = phases.at_work(view) | self._loading | self._mask(self.collective)
        self._waits: dict[int, dict[Cause, Ranges]] = {}
        self._busy: dict[int, Ranges] = {}

    def waits(self, thread: int) -> dict[Cause, Ranges]:
        """The waits of a thread over the whole file, by cause; if two overlap, the earlier cause in the
        list wins."""
        if thread not in self._waits:
            takes: dict[Cause, Mask] = {
                "data": self._loading,
                "communication": self._mask(self.collective),
                "synchronisation": self._mask(np.setdiff1d(self.waiting, self.uploads)),
                "copy": self._mask(self.uploads),
            }
            self._waits[thread] = {
                cause: phases.cover(self.view, take, thread) for cause, take in takes.items()
            }
        return self._waits[thread]

    def explaining_threads(self, launched: dict[int, Ranges]) -> Iterator[tuple[int, Ranges]]:
        """Which thread explains which ranges: the launching thread where it works, else the loop's, else
        another one, else the loop's thread although it does nothing.
        launched: by launching thread; no two overlap."""
        for thread, ranges in launched.items():
            yield thread, intervals.intersect(ranges, self._work_of(thread))
        left = [intervals.subtract(ranges, self._work_of(thread)) for thread, ranges in launched.items()]
        ranges = intervals.join(*left) if left else intervals.EMPTY
        for thread in dict.fromkeys([self.loop, *self.launching]):
            if not len(ranges.start):
                return
            yield thread, intervals.intersect(ranges, self._work_of(thread))
            ranges = intervals.subtract(ranges, self._work_of(thread))
        yield self.loop, ranges

    def _work_of(self, thread: int) -> Ranges:
        if thread not in self._busy:
            self._busy[thread] = phases.cover(self.view, self._working, thread)
        return self._busy[thread]

    def _mask(self, rows: Index) -> Mask:
        mask = np.zeros(len(self.view.trace.host), bool)
        mask[rows] = True
        return mask


def _before_launch(ledger: "_Ledger", host: _Host, gaps: _Gaps, busy: Ranges) -> None:
    """Attribute gaps to what the host did instead of launching."""
    launched = dict[int, Ranges]()
    for thread in intervals.distinct(gaps.thread).tolist():
        on_thread = (gaps.thread == thread) & (gaps.launched > gaps.start)
        ranges = Ranges(gaps.start[on_thread], gaps.launched[on_thread])
        if thread == NONE:
            # Gaps that end with an activity whose launch is not in the file.
            if host.loop != NONE:
                loading = intervals.intersect(ranges, host.waits(host.loop)["data"])
                ledger.add("data", loading, host_time.innermost(host.view, host.loop, loading))
                ranges = intervals.subtract(ranges, loading)
            ledger.add("other", ranges)
            ledger.label("other", "no launch in the trace", ranges.total)
            continue
        launched[thread] = ranges
    by_thread = defaultdict[int, list[Ranges]](list)
    for speaker, part in host.explaining_threads(launched):
        by_thread[speaker].append(part)
    rests = dict[int, Ranges]()
    spent = list[Ranges]()
    for speaker, parts in by_thread.items():
        rest = _waits_of(ledger, host, speaker, intervals.join(*parts), spent)
        # Book what the profiler itself took of these ranges, and return the rest.
        part = intervals.intersect(rest, host_time.profiling(host.view))
        ledger.add("unrecorded", part)
        ledger.label("unrecorded", "the profiler", part.total)
        spent.append(part)
        rests[speaker] = intervals.subtract(rest, part)
    _rests(ledger, host, rests, spent, busy)


def _waits_of(ledger: "_Ledger", host: _Host, thread: int, ranges: Ranges, spent: list[Ranges]) -> Ranges:
    """Book what a thread waited for in these ranges, and return the rest. `spent` collects ranges that
    cost the host its lead."""
    view = host.view
    threads = view.trace.host.thread
    for cause, waited in host.waits(thread).items():
        part = intervals.intersect(ranges, waited)
        ranges = intervals.subtract(ranges, waited)
        if not len(part.start):
            continue
        if cause == "data":
            shares = host_time.innermost(view, thread, part)
        elif cause == "communication":
            rows = host.collective[threads[host.collective] == thread]
            shares = host_time.of_calls(view, rows, np.full(len(rows), NONE, np.int32), part)
        else:
            rows = np.union1d(host.waiting, host.uploads)
            rows = rows[threads[rows] == thread]
            shares = host_time.of_calls(view, rows, host_time.culprits(view, rows), part)
        ledger.add(cause, part, shares)
        if cause != "synchronisation":
            spent.append(part)
    return ranges


def _rests(
    ledger: "_Ledger", host: _Host, rests: dict[int, Ranges], spent: list[Ranges], busy: Ranges
) -> None:
    """Book the time in which the host was at work: late because of an earlier wait, or late without one."""
    if not rests:
        return
    ends = intervals.distinct(host.view.trace.host.end[host.delays])
    first, last = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    between = Ranges(np.append(first, ends), np.append(ends, last))
    by_cause = rests | {NONE: intervals.join(*spent)} if spent else rests
    parts = [intervals.intersect(each, between) for each in by_cause.values()]
    thread = np.repeat(list(by_cause), [len(part.start) for part in parts])
    start, end = (np.concatenate([part[side] for part in parts]) for side in (0, 1))
    order = np.argsort(start, kind="stable")
    start, end, thread = start[order], end[order], thread[order]
    lost, source = _find_lost_lead(host, start, end, busy)
    lost[thread == NONE] = 0
    middle = start + lost
    some = lost > 0
    rows, of = np.unique(source[some], return_inverse=True)
    ns = np.bincount(of, lost[some], minlength=len(rows)).astype(np.int64)
    cause = host_time.culprits(host.view, rows)
    names_ = host.view.trace.host.name[np.where(cause >= 0, cause, rows)]
    ledger.add("synchronisation", Ranges(start[some], middle[some]), Shares(rows, names_, ns))
    for each in rests:
        on_thread = (thread == each) & (middle < end)
        late = Ranges(middle[on_thread], end[on_thread])
        silent = intervals.intersect(late, host_time.find_unexplained(host.view))
        ledger.add("unrecorded", silent)
        ledger.label("unrecorded", "no event", silent.total)
        part = intervals.subtract(late, silent)
        ledger.add("host", part, host_time.innermost(host.view, each, part))


def _find_lost_lead(host: _Host, start: Ints, end: Ints, busy: Ranges) -> tuple[Ints, Index]:
    """The part of each idle piece that an earlier wait explains, and that wait's host row (NONE without).

    A wait adds what it took while the device was busy: so far ahead the host would have been without it. Idle
    time uses that up. It never grows beyond a mean step: a host cannot be further ahead than its queue.

    start, end: of pieces in time order; no wait ends inside one."""
    calls, steps = host.view.trace.host, host.view.steps
    rows = host.delays
    most = int((steps.end - steps.start).mean())
    waited = intervals.within(busy, calls.start[rows], calls.end[rows])
    since = np.searchsorted(calls.end[rows], start, side="right")  # 0 is before the first wait
    length = end - start
    idle_since = np.bincount(since, length, minlength=len(rows) + 1).astype(np.int64)
    lead, source = np.zeros(len(rows) + 1, np.int64), np.full(len(rows) + 1, NONE, np.int32)
    left, by = 0, NONE
    for index, (row, wait, gone) in enumerate(
        zip(rows.tolist(), waited.tolist(), idle_since[1:].tolist(), strict=True), 1
    ):
        if wait >= left:
            by = row
        lead[index] = min(left + wait, most)
        source[index] = by
        left = max(int(lead[index]) - gone, 0)
    before = np.cumsum(length) - length
    first = np.searchsorted(since, np.arange(len(rows) + 1))
    before -= np.append(before, 0)[first][since]
    return np.clip(lead[since] - before, 0, length), source[since]


class _Ledger:
    """Collects parts of gaps by cause, and what the host was doing in them."""

    def __init__(self, view: View, parts: list[Part]) -> None:
        self.total = self._device = 0
        self._view, self._parts = view, parts
        self._gaps: list[Ints] = []
        self._lengths = defaultdict[Cause, list[Ints]](list)
        self._of = defaultdict[Cause, list[Ints]](list)
        self._names = defaultdict[Cause, Counter[str]](Counter)
        self._longest = defaultdict[Cause, dict[str, tuple[int, int]]](dict)

    def open(self, gaps: _Gaps, device: int) -> None:
        """Set the gaps to which the next parts belong."""
        self._device = device
        self._gaps.append(gaps.start)
        self.total += int((gaps.end - gaps.start).sum())

    def add(self, cause: Cause, part: Ranges, shares: Shares | None = None) -> None:
        """Add parts of gaps to a cause, with the calls that had them."""
        before = sum(len(gap) for gap in self._gaps[:-1])
        self._of[cause].append(np.searchsorted(self._gaps[-1], part.start, side="right") - 1 + before)
        self._lengths[cause].append(part.end - part.start)
        self._parts.append((self._device, cause, part))
        if shares is None:
            return
        functions = stacks.frames_of(self._view).texts
        left = part.total
        order = np.lexsort((shares.ns, shares.name))
        row, name, ns = shares.row[order], shares.name[order], shares.ns[order]
        last = np.flatnonzero(np.append(name[1:] != name[:-1], True)) if len(name) else np.empty(0, np.int64)
        totals = np.diff(np.append(0, np.cumsum(ns)[last]))
        for index, total, at, most in zip(
            name[last].tolist(), totals.tolist(), row[last].tolist(), ns[last].tolist(), strict=True
        ):
            text = functions.get(index, self._view.trace.texts[index])
            self.label(cause, text, total)
            left -= total
            self._longest[cause][text] = max(self._longest[cause].get(text, (0, NONE)), (most, at))
        self.label(cause, PYTHON, left)

    def label(self, cause: Cause, text: str, ns: int) -> None:
        """Name what some nanoseconds of a cause were."""
        if ns > 0:
            self._names[cause][text] += ns

    def causes(self) -> list[IdleCause]:
        """One row a cause, most time first."""
        causes = [self._cause(cause) for cause in get_args(Cause)]
        return sorted((row for row in causes if row.total_ns), key=lambda row: -row.total_ns)

    def _cause(self, cause: Cause) -> IdleCause:
        if not self._of[cause]:
            return IdleCause(cause=cause, total_ns=0, share_of_idle=0.0)
        of, length = np.concatenate(self._of[cause]), np.concatenate(self._lengths[cause])
        per_gap = np.bincount(of, length).astype(np.int64)
        total = int(length.sum())
        operators = self._names[cause].most_common(MOST)
        longest = self._longest[cause].get(operators[0][0] if operators else "", (0, NONE))
        return IdleCause(
            cause=cause,
            total_ns=total,
            share_of_idle=total / self.total if self.total else 0.0,
            gaps=int((per_gap > 0).sum()),
            longest_ns=int(per_gap.max(initial=0)),
            operators=operators,
            stack=stacks.stack_of(self._view, longest[1]) if longest[1] != NONE else [],
        )
