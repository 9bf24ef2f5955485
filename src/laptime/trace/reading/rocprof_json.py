"""The JSON that rocprof (ROCm 3 to 6) writes for Perfetto, as columns: `rocprof --sys-trace python train.py`,
results.json.

It is Chrome's format without categories, every value a text: the label of an event's section (its `pid`) says
what it is, `args` has its times in ns and its process. Only arrows tell which call launched what: from the
middle of the call to the begin of the kernel or copy, both in whole microseconds, on the rows that they join.
Source: rocprofiler, bin/tblextr.py (sections, arrows), bin/dform.py and bin/sqlitedb.py (events).
Lies when: two calls of one thread, or two kernels of one stream, begin within a microsecond: their arrows are
taken in the order of the file."""

import re
import sys
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
from msgspec import Struct, field

from laptime.kit.errors import UsageError
from laptime.trace.columns import NONE, DeviceKind, HostKind, Ints, Trace
from laptime.trace.reading import assemble, sqlite
from laptime.trace.reading.assemble import Rows
from laptime.trace.reading.decode import FAULTS, mend

FORMAT = "rocprof"
_BEGIN = re.compile(rb'\s*\{\s*"traceEvents"\s*:\s*\[\s*\{\s*\}')
"""The list of rocprof begins with an empty event, as no other one does."""
_GPU = re.compile(r"GPU(\d{1,4})$")
_API = {"CPU HIP API": HostKind.RUNTIME, "CPU HSA API": HostKind.DRIVER}
_COPIES, _MARKS = "COPY", "Markers and Ranges"
_LAUNCH = re.compile(r"launch|memcpy|memset|copy|dispatch", re.IGNORECASE)  # calls that arrows start from
_WAY = re.compile(r"Copy(Host|Device)To(Host|Device)")


class _Args(Struct, gc=False):
    begin: int | None = field(name="BeginNs", default=None)
    end: int | None = field(name="EndNs", default=None)
    pid: int = NONE
    tid: int = NONE
    device: int = field(name="dev-id", default=0)
    name: str = ""


class _Event(Struct, gc=False):
    ph: str = ""
    name: str = ""
    pid: int = NONE
    tid: int = NONE
    ts: int = NONE
    id: int = NONE
    args: _Args = field(default_factory=_Args)

    @property
    def thread(self) -> int:
        """The thread of the host that it ran on or was called from."""
        return self.args.tid if self.args.tid >= 0 else self.tid


class _File(Struct):
    events: list[_Event] = field(name="traceEvents")


_decoder = msgspec.json.Decoder(_File, strict=False)


def is_own(path: Path) -> bool:
    """Whether a plain file begins as rocprof begins it. Raises OSError: it cannot be opened."""
    with path.open("rb") as file:
        return _BEGIN.match(file.read(256)) is not None


def read(path: Path) -> Trace:
    """One file, whole in memory. Raises UsageError: it is damaged, or has no events."""
    content = path.read_bytes()
    why, again = "", "run rocprof --sys-trace again, or rocprofv3 --sys-trace --output-format rocpd"
    try:
        events = _decoder.decode(mend(content)).events
    except FAULTS as error:
        events, why = [], str(error)
    labels = {event.pid: event.args.name for event in events if event.ph == "M"}
    timed = [e for e in events if e.ph == "X" and e.args.begin is not None and e.args.end is not None]
    rows = Rows()
    calls = [event for event in timed if labels.get(event.pid) in _API]
    if calls:
        rows.add(
            "host",
            **_times(calls),
            thread=np.array([rows.thread(call.args.pid, call.thread) for call in calls]),
            correlation=np.arange(len(calls)),
            kind=np.array([int(_API[labels[call.pid]]) for call in calls]),
            name=rows.texts(call.name for call in calls),
        )
    found = [sqlite.Mark(e.args.begin or 0, e.args.end or 0, rows.thread(e.args.pid, e.thread), e.name)
             for e in timed if labels.get(e.pid) == _MARKS]  # fmt: skip
    sqlite.add(rows, found, lambda threads: threads)
    on_device = {pid for pid, label in labels.items() if label == _COPIES or _GPU.match(label)}
    work = [each for each in timed if each.pid in on_device]
    arrows = _Arrows(events, calls)
    if work:
        named = [_classify(event, labels[event.pid]) for event in work]
        gpus = [_GPU.match(labels[event.pid]) for event in work]
        devices = [int(gpu[1]) if gpu else max(e.args.device, 0) for gpu, e in zip(gpus, work, strict=True)]
        rows.add(
            "device",
            **_times(work),
            kind=np.array([int(kind) for kind, _ in named]),
            name=rows.texts(name for _, name in named),
            device=np.array(devices),
            stream=np.array([max(event.tid, 0) for event in work]),
            correlation=np.array([arrows.launch(event) for event in work]),
        )
    if not rows.events:
        why = why or "it has neither calls nor kernels, copies or ranges with times"
        raise UsageError(f"{path} is not a whole trace of rocprof", why=why, next=again)
    return replace(assemble.trace([rows.part(len(content))], {}, name=path.name), format=FORMAT)


class _Arrows:
    """Arrows from calls to what they launched."""

    def __init__(self, events: Iterable[_Event], calls: list[_Event]) -> None:
        self._starts = defaultdict[tuple[int, int], list[tuple[int, int]]](list)
        for number, call in enumerate(calls):
            if _LAUNCH.search(call.name):
                self._starts[call.pid, call.tid].append((call.ts, number))
        for starts in self._starts.values():
            starts.sort()
        self._arrivals = defaultdict[tuple[int, int, int], list[int]](list)
        begun = dict[int, int]()
        for event in events:
            if event.ph == "s":
                starts = self._starts.get((event.pid, event.tid), [])
                at = bisect_right(starts, (event.ts, sys.maxsize)) - 1
                begun[event.id] = starts[at][1] if at >= 0 else NONE
            elif event.ph == "t" and begun.get(event.id, NONE) != NONE:
                self._arrivals[event.pid, event.tid, event.ts].append(begun[event.id])

    def launch(self, event: _Event) -> int:
        """The number of the call that launched it; NONE of what no arrow leads to."""
        arrivals = self._arrivals.get((event.pid, event.tid, event.ts))
        return arrivals.pop(0) if arrivals else NONE


def _classify(event: _Event, label: str) -> tuple[DeviceKind, str]:
    """Return its kind, and its name as Kineto has it."""
    if label != _COPIES:
        return DeviceKind.KERNEL, event.name
    if "Fill" in event.name:
        return DeviceKind.MEMSET, "Memset (Device)"
    way = _WAY.search(event.name)
    return DeviceKind.MEMCPY, f"Memcpy {way[1][0]}to{way[2][0]}" if way else "Memcpy"


def _times(events: list[_Event]) -> dict[str, Ints]:
    """Begins and ends, which all of these have; NONE of what is damage."""
    sides = {"start": [event.args.begin for event in events], "end": [event.args.end for event in events]}
    return {
        side: np.array([NONE if ns is None or abs(ns) >= 1 << 62 else ns for ns in times], np.int64)
        for side, times in sides.items()
    }
