"""One `.xplane.pb` file into the columns that Kineto's traces have."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from laptime.kit.errors import UsageError
from laptime.kit.protobuf import Damaged
from laptime.kit.text import count
from laptime.trace.columns import NONE, DeviceWork, Host, HostKind, Trace
from laptime.trace.reading import assemble
from laptime.trace.reading.gather import WEEK, Part
from laptime.trace.reading.xplane import host, space
from laptime.trace.reading.xplane.space import Line, Plane

SUFFIX = ".xplane.pb"
FORMAT = "xplane"
_LATEST = 1 << 61
"""ns after which a start is damage."""
_FLOATS = ("blocks_per_sm", "occupancy")


def read(path: Path) -> Trace:
    """A file of TensorFlow's profiler.

    Raises:
        UsageError: it cannot be opened, is damaged, or has no events.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read",
            why=error.strerror or str(error),
            next=f"laptime trace FILE{SUFFIX}, or a folder",
        ) from error
    return parse(data, name=str(path))


def parse(data: bytes, *, name: str = f"trace{SUFFIX}") -> Trace:
    """The same for bytes in memory."""
    try:
        planes = space.planes(data)
    except Damaged as error:
        raise UsageError(
            f"{name} is no profile of TensorFlow, or it is damaged",
            why=str(error),
            next="record it again: tf.profiler.experimental.start(FOLDER)",
        ) from error
    rows = _Rows()
    hosts = [plane for plane in planes if plane.name.startswith("/host:")]
    rows.add_hosts(hosts)
    devices = [(plane, number) for plane in planes if (number := host.device_of(plane)) is not None]
    for plane, number in devices:
        rows.add_device(plane, number)
    if not rows.host["start"] and not rows.device["start"]:
        raise UsageError(
            f"{name} has no events",
            why=f"it has {count(len(planes), 'plane')}, none of them with ranges of a host or a GPU",
            next="record it while steps run: tf.profiler.experimental.start(FOLDER)",
        )
    about = {
        "framework": "tensorflow",
        "deviceProperties": [host.properties(plane, number) for plane, number in devices],
    }
    trace = assemble.trace([rows.part(len(data))], about, name=Path(name).name)
    return replace(trace, format=FORMAT, warnings=[*trace.warnings, *_unread(planes)])


class _Rows:
    """Rows of the tables as lists, texts and threads numbered."""

    def __init__(self) -> None:
        self.host: dict[str, list[Any]] = {field: [] for field in Host.__dataclass_fields__}
        self.device: dict[str, list[Any]] = {field: [] for field in DeviceWork.__dataclass_fields__}
        self._texts = dict[str, int]()
        self._threads = dict[tuple[str, str], int]()
        self._names = dict[str, str]()
        self._absurd = self._events = 0

    def add_hosts(self, planes: list[Plane]) -> None:
        """Threads of all host planes, with the steps found on them."""
        lines = [(plane, self._sane(line)) for plane in planes for line in plane.lines]
        step_ranges = host.find([line for _, line in lines], [plane.kinds for plane, _ in lines])
        for at, (plane, line) in enumerate(lines):
            thread = self._thread(line)
            self._add_line(plane, line, thread, step_ranges.instead_of if step_ranges else "")
            if step_ranges is not None and step_ranges.line == at:
                for mark in step_ranges.marks:
                    sort = host.Sort(HostKind.ANNOTATION, mark.name)
                    self._add_host(mark.start, mark.end, thread, sort)

    def _add_line(self, plane: Plane, line: Line, thread: int, steps_are: str) -> None:
        for event in line.events:
            kind = plane.kinds.get(event.kind)
            if kind is None or ("step_num" in event.facts and kind.name == steps_are):
                continue
            sort = host.sort(kind, event.facts)
            if sort is None:
                continue
            called = sort.kind in (HostKind.RUNTIME, HostKind.DRIVER)
            correlation = event.facts.get("correlation_id", NONE) if called else NONE
            self._add_host(event.start, event.end, thread, sort, correlation)

    def _add_host(self, start: int, end: int, thread: int, sort: host.Sort, call: object = NONE) -> None:
        row = {"start": start, "end": end, "kind": sort.kind, "thread": thread, "name": sort.name}
        correlation = call if isinstance(call, int) else NONE
        self._append(self.host, {**row, "stack": sort.place, "correlation": correlation})

    def add_device(self, plane: Plane, device: int) -> None:
        """The activities of a GPU."""
        sane = plane._replace(lines=[self._sane(line) for line in plane.lines])
        for row in host.rows(sane, device):
            self._append(self.device, row)

    def _append(self, table: dict[str, list[Any]], row: dict[str, Any]) -> None:
        for field, values in table.items():
            value = row.get(field, float("nan") if field in _FLOATS else NONE)
            if field in assemble.TEXTS and isinstance(value, str):
                value = self._texts.setdefault(value, len(self._texts)) if value else NONE
            values.append(value)

    def _sane(self, line: Line) -> Line:
        """The line without events whose times only damage can explain."""
        sane_events = [
            event
            for event in line.events
            if -_LATEST < event.start < _LATEST and 0 <= event.end - event.start <= WEEK
        ]
        self._events += len(line.events)
        self._absurd += len(line.events) - len(sane_events)
        return Line(line.name, sane_events)

    def _thread(self, line: Line) -> int:
        """A number for this line; several lines may have one name."""
        name = line.name or "thread"
        same = sum(each == name for each in self._names.values())
        key = name if not same else f"{name} {same + 1}"
        self._threads["", key] = len(self._threads)
        self._names[f"/{key}"] = name
        return self._threads["", key]

    def part(self, size: int) -> Part:
        """All rows."""
        columns = {}
        for table, rows in (("host", self.host), ("device", self.device)):
            for field, values in rows.items():
                whole = np.array(values, np.float64 if field in _FLOATS else np.int64)
                columns[f"{table}.{field}"] = (whole.dtype.str, whole.tobytes())
        return Part(
            columns=columns,
            texts=list(self._texts),
            threads=list(self._threads),
            thread_names=self._names,
            events=self._events,
            absurd=self._absurd,
            size=size,
        )


def _unread(planes: Iterable[Plane]) -> list[str]:
    """What is in the file and in no table."""
    if any(plane.name.startswith("/device:TPU") for plane in planes):
        return ["planes of TPUs are not read: these tables show the host"]
    return []
