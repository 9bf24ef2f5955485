"""One `.xplane.pb` file into the columns that Kineto's traces have."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from laptime.kit.errors import UsageError
from laptime.kit.protobuf import Damaged
from laptime.kit.text import count
from laptime.trace.columns import NONE, HostKind, Trace
from laptime.trace.reading import assemble
from laptime.trace.reading.gather import Part
from laptime.trace.reading.stream import unreadable
from laptime.trace.reading.xplane import host, space
from laptime.trace.reading.xplane.space import Plane

SUFFIX = ".xplane.pb"
FORMAT = "xplane"


def read(path: Path) -> Trace:
    """A file of TensorFlow's profiler.
    Raises UsageError: it cannot be opened, is damaged, or has no events."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise unreadable(path, error, f"name a file that ends in {SUFFIX}, or a folder") from error
    return parse(data, name=str(path))


def parse(data: bytes, *, name: str = f"trace{SUFFIX}") -> Trace:
    """The same for bytes in memory."""
    try:
        planes = space.planes(data)
    except Damaged as error:
        raise UsageError(
            f"{name} is not a profile of TensorFlow, or it is damaged",
            why=str(error),
            next="record it again: tf.profiler.experimental.start(FOLDER)",
        ) from error
    rows = _Rows()
    hosts = [plane for plane in planes if plane.name.startswith("/host:")]
    devices = [(plane, number) for plane in planes if (number := host.device_of(plane)) is not None]
    rows.add_hosts(hosts, [plane for plane, _ in devices])
    for plane, number in devices:
        rows.device += host.rows(plane, number)
    if not rows.host and not rows.device:
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
    unread = any(plane.name.startswith("/device:TPU") for plane in planes)
    said = ["planes of TPUs are not read: these tables show the host"] * unread
    return replace(trace, format=FORMAT, warnings=[*trace.warnings, *said])


class _Rows(assemble.Rows):
    """Rows of both tables, one after the other, with their threads."""

    def __init__(self) -> None:
        super().__init__()
        self.host, self.device = list[dict[str, Any]](), list[dict[str, Any]]()
        self._launched: frozenset[object] = frozenset()

    def add_hosts(self, planes: list[Plane], devices: list[Plane]) -> None:
        """Threads of all host planes, with the steps found on them, or else on a device."""
        self._launched = host.correlations(devices)
        lines = [(plane, line) for plane in planes for line in plane.lines]
        step_ranges = host.find([line for _, line in lines], [plane.kinds for plane, _ in lines])
        steps_are = step_ranges.instead_of if step_ranges else ""
        for index, (plane, line) in enumerate(lines):
            thread = self._of(line.name)
            for event in line.events:
                kind = plane.kinds.get(event.kind)
                if kind is None or ("step_num" in event.facts and kind.name == steps_are):
                    self.events += 1
                    continue
                if (sort := host.sort(kind, event.facts, self._launched)) is None:
                    self.events += 1
                    continue
                called = sort.kind in (HostKind.RUNTIME, HostKind.DRIVER)
                correlation = event.facts.get("correlation_id", NONE) if called else NONE
                self._add_host(event.start, event.end, thread, sort, correlation)
            if step_ranges is not None and step_ranges.line == index:
                self._add_marks(step_ranges.marks, thread)
        if step_ranges is None and (marks := host.of_device(devices)):
            self._add_marks(marks, self._of("Steps"))

    def _add_marks(self, marks: list[host.Mark], thread: int) -> None:
        for mark in marks:
            self._add_host(mark.start, mark.end, thread, host.Sort(HostKind.ANNOTATION, mark.name))

    def _add_host(self, start: int, end: int, thread: int, sort: host.Sort, call: object = NONE) -> None:
        row = {"start": start, "end": end, "kind": sort.kind, "thread": thread, "name": sort.name}
        correlation = call if isinstance(call, int) else NONE
        self.host.append({**row, "stack": sort.place, "correlation": correlation})

    def _of(self, line: str) -> int:
        """A number for this line; several lines may have one name."""
        name = line or "thread"
        same = sum(each == name for each in self._names.values())
        return self.thread("", name if not same else f"{name} {same + 1}", name)

    def part(self, size: int) -> Part:
        """All rows."""
        for table, rows in (("host", self.host), ("device", self.device)):
            columns = {field: [row[field] for row in rows] for field in (rows[0] if rows else ())}
            texts = {field: self.texts(columns[field]) for field in assemble.TEXTS if field in columns}
            if rows:
                self.add(table, **{**columns, **texts})
        return super().part(size)
