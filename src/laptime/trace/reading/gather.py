"""Events into columns, chunk by chunk: what one process collects of one file."""

import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import partial
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct

from laptime.trace.columns import HostKind, Ints, Kinds, Mask
from laptime.trace.reading.decode import (
    APIS,
    DEVICE,
    RANGE,
    STREAM_WAIT,
    Args,
    Begins,
    Complete,
    Ends,
    Event,
    Events,
    Instant,
    Meta,
    group,
)

Columns = dict[str, np.ndarray[Any, Any]]
WEEK = 7 * 86_400 * 1_000_000_000
_LARGEST = 1 << 62
_SANE = 4.5e15  # microseconds (142 years) above which a number is no time
_FINE = float(1 << 43)
"""Microseconds (102 days) up to which a float64 names a nanosecond: it is off by 0.49 ns at most."""


class Imprecise(Exception):
    """Times are so large that floats do not hold their nanoseconds; decode again, exactly."""


class Part(Struct):
    """Columns of one stretch of a file, as raw bytes, so that another process can send them."""

    columns: dict[str, tuple[str, bytes]] = {}  # "table.column" -> (dtype, bytes)
    texts: list[str] = []  # named by index columns
    threads: list[tuple[str, str]] = []  # (pid, tid) as written
    thread_names: dict[str, str] = {}
    collectives: list[tuple[str, int, int, str, str, int, int]] = []  # as tuples
    events: int = 0
    lost: int = 0
    absurd: int = 0
    timeless: int = 0
    capitals: bool = False
    api: str = ""  # accelerator that the categories name, mtia or xpu; "" without
    flows: list[str] = []
    head: bytes = b""
    tail: bytes = b""
    size: int = 0
    truncated: bool = False

    def column(self, name: str) -> Any:
        """One column as an array."""
        dtype, data = self.columns[name]
        return np.frombuffer(data, dtype)


class _Numbered(dict[Any, int]):
    """A dict that numbers its keys in the order of their first use; a hit costs no Python call."""

    def __missing__(self, key: Any) -> int:
        self[key] = number = len(self)
        return number


class _Cached(dict[Any, int]):
    """A dict that asks a function once for every key; a hit costs no Python call."""

    def __init__(self, find: Callable[[Any], int], known: Mapping[Any, int] | None = None) -> None:
        super().__init__(known or {})
        self._find = find

    def __missing__(self, key: Any) -> int:
        self[key] = number = self._find(key)
        return number


_ARGS, _TIME, _TOOK = attrgetter("args"), attrgetter("ts"), attrgetter("dur")
_NAME, _CATEGORY, _PLACE = attrgetter("name"), attrgetter("cat"), attrgetter("pid", "tid")
_HOST_TEXTS = {"types": "types", "stack": "stack", "module": "hierarchy"}
_DEVICE_INTS = ("correlation", "registers", "shared_memory", "graph")
_MEMORY_INTS = ("bytes", "allocated", "reserved", "device_type", "device")
_FORWARD_BACKWARD = ("fwdbwd", "forward_backward")


class Gather:
    """Collects events; `part()` gives what was collected."""

    def __init__(self) -> None:
        texts, keys = _Numbered(), _Numbered()
        self._codes = _Cached(group)
        self._texts, self._keys = texts, keys
        # Texts by how they are written in the file; threads as they were decoded: 7 and "7" are one.
        self._raws = _Cached(lambda raw: texts[_unwrap(raw)], {b'""': -1})
        self._threads = _Cached(lambda place: keys[str(place[0]), str(place[1])])
        self._collectives = _Numbered()
        self._columns: dict[str, list[np.ndarray[Any, Any]]] = {}
        self._flows = set[str]()
        self._part = Part()

    def add(self, events: Events) -> None:
        """Take one chunk. Raises Imprecise: a time is too large for its float."""
        self._part.events += len(events)
        ranges = [event for event in events if type(event) is Complete]
        codes = np.fromiter(map(self._codes.__getitem__, map(_CATEGORY, ranges)), np.int8, len(ranges))
        self._take(ranges, codes, codes < DEVICE, self._host)
        self._take(ranges, codes, (codes >= DEVICE) & (codes < RANGE), self._work)
        self._take(ranges, codes, codes == RANGE, self._ranges)
        if len(ranges) < len(events):
            # Memory, arrows and names.
            memory = [event for event in events if type(event) is Instant and event.name == "[memory]"]
            if memory:
                args = list(map(_ARGS, memory))
                columns = {
                    "at": _nanoseconds(list(map(_TIME, memory))),
                    "thread": self._thread(memory),
                    "address": _ints(args, "address").view(np.uint64),
                    **{field: _ints(args, field) for field in _MEMORY_INTS},
                }
                self._append("memory", columns, np.ones(len(memory), bool))
            begins = [event for event in events if type(event) is Begins]
            self._flows.update(map(_CATEGORY, begins))
            if not self._flows.isdisjoint(_FORWARD_BACKWARD):
                arrows = begins + [event for event in events if type(event) is Ends]
                self._arrows([event for event in arrows if event.cat in _FORWARD_BACKWARD])
            for event in events:
                if type(event) is Meta and event.name == "thread_name":
                    self._part.thread_names[f"{event.pid}/{event.tid}"] = str(event.args.name)

    def part(self) -> Part:
        """Return everything that was collected."""
        part = self._part
        for name, arrays in self._columns.items():
            whole = np.concatenate(arrays)
            part.columns[name] = (whole.dtype.str, whole.tobytes())
            arrays.clear()
        part.texts = list(self._texts)
        part.threads = list(self._keys)
        part.collectives = list(self._collectives)
        part.flows = sorted(self._flows)
        part.api = next(
            (api for api in APIS for category in self._codes if category.startswith(f"{api}_")), ""
        )
        part.capitals = any(category[:1].isupper() and category != "Trace" for category in self._codes)
        return part

    def _take(self, events: Events, codes: Kinds, mask: Mask, into: Callable[[Events, Kinds], None]) -> None:
        rows = np.flatnonzero(mask)
        if len(rows) == len(events):
            into(events, codes)
        elif len(rows):
            into([events[row] for row in rows.tolist()], codes[rows])

    def _host(self, events: Events, codes: Kinds) -> None:
        args = list(map(_ARGS, events))
        start, end, keep = self._times(events)
        called = (codes == HostKind.RUNTIME) | (codes == HostKind.DRIVER)
        described = (codes == HostKind.OPERATOR) | (codes == HostKind.ANNOTATION)
        columns = {
            "start": start,
            "end": end,
            "name": self._names(events),
            "kind": codes,
            "thread": self._thread(events),
            "correlation": _only(called, args, lambda some: _ints(some, "correlation")),
            "module_id": _only(codes == HostKind.PYTHON, args, lambda some: _ints(some, "module_id")),
            "sequence": _only(described, args, lambda some: _ints(some, "sequence")),
            "forward_thread": _only(described, args, lambda some: _ints(some, "forward_thread")),
            "shapes": _only(described, args, self._shapes),
        }
        for column, field in _HOST_TEXTS.items():
            columns[column] = _only(described, args, partial(self._raw, field=field))
        self._append("host", columns, keep)

    def _work(self, events: Events, codes: Kinds) -> None:
        works = np.array([event.name != STREAM_WAIT for event in events], bool)
        self._take(events, codes, works, self._device)

    def _device(self, events: Events, codes: Kinds) -> None:
        args = list(map(_ARGS, events))
        columns, keep = self._on_stream(events, args)
        columns |= {field: _ints(args, field) for field in _DEVICE_INTS}
        indices = np.full(len(args), -1, np.int32)
        names = list(map(attrgetter("collective"), args))
        if names.count("") < len(names):
            for row, each in enumerate(args):
                if each.collective:
                    indices[row] = self._collectives[_collective_of(each)]
        columns |= {
            "kind": codes - np.int8(DEVICE),
            "blocks_per_sm": np.array(list(map(attrgetter("blocks_per_sm"), args)), np.float64),
            "occupancy": np.array(list(map(attrgetter("occupancy"), args)), np.float64),
            "grid": self._raw(args, "grid"),
            "block": self._raw(args, "block"),
            "bytes": _fill(_ints(args, "bytes"), events, lambda event: _small(event.args.size, _LARGEST, -1)),
            "collective": indices,
        }
        self._append("device", columns, keep)

    def _ranges(self, events: Events, codes: Kinds) -> None:
        self._append("ranges", *self._on_stream(events, list(map(_ARGS, events))))

    def _on_stream(self, events: Events, args: list[Args]) -> tuple[Columns, Mask]:
        """Return the columns that all ranges on a stream have, and which of them are sane."""
        start, end, keep = self._times(events, works=True)
        columns = {
            "start": start,
            "end": end,
            "name": self._names(events),
            "device": _fill(_ints(args, "device"), events, lambda event: _small(event.pid, 1 << 16, 0)),
            "stream": _fill(_ints(args, "stream"), events, _stream_of),
        }
        return columns, keep

    def _arrows(self, events: Events) -> None:
        arrows = [event for event in events if isinstance(event.id, int) and abs(event.id) < _LARGEST]
        columns = {
            "id": np.array([event.id for event in arrows], np.int64),
            "at": _nanoseconds(list(map(_TIME, arrows))),
            "thread": self._thread(arrows),
            "begin": np.array([type(event) is Begins for event in arrows], bool),
        }
        self._append("flows", columns, np.ones(len(arrows), bool))

    def _append(self, table: str, columns: Columns, keep: Mask) -> None:
        whole = bool(keep.all())
        for name, values in columns.items():
            self._columns.setdefault(f"{table}.{name}", []).append(values if whole else values[keep])

    def _times(self, events: Events, *, works: bool = False) -> tuple[Ints, Ints, Mask]:
        """Starts and ends in ns, and which are sane: no longer than a week, not before their start, with
        times at all: some writers leave 0 and 0 if they know none, and work of a device has a duration."""
        start = _nanoseconds(list(map(_TIME, events)))
        took = _nanoseconds(list(map(_TOOK, events)))
        silent = took == -1000  # an event without duration
        took[silent] = 0
        timeless = (took == 0) & ((start == 0) | (silent & works))
        self._part.timeless += int(timeless.sum())
        keep = ~timeless & (took >= 0) & (took <= WEEK) & (np.abs(start) < int(_SANE * 1000))
        self._part.absurd += int(len(events) - keep.sum() - timeless.sum())
        return start, np.where(keep, start + took, start), keep

    def _names(self, events: Events) -> Any:
        return np.fromiter(map(self._texts.__getitem__, map(_NAME, events)), np.int32, len(events))

    def _raw(self, args: list[Args], field: str) -> Any:
        """Texts of values that are kept as they are written; one that is a string is unescaped."""
        values = list(map(attrgetter(field), args))
        if values.count(None) == len(values):  # most files have no stacks, or no shapes
            return np.full(len(values), -1, np.int32)
        indices = self._raws
        return np.array([-1 if value is None else indices[bytes(value)] for value in values], np.int32)

    def _shapes(self, args: list[Args]) -> Any:
        """`Input Dims`, which torch 1.10 wrote otherwise."""
        indices = self._raw(args, "dims")
        return np.where(indices >= 0, indices, self._raw(args, "older_dims"))

    def _thread(self, events: Events) -> Any:
        return np.fromiter(map(self._threads.__getitem__, map(_PLACE, events)), np.int32, len(events))


def _nanoseconds(times: list[Any]) -> Ints:
    """Microseconds as written to whole nanoseconds. Raises Imprecise: a float is too large to tell them."""
    if times and isinstance(times[0], Decimal):
        scaled = [round(time * 1000) for time in times]
        return np.array([n if abs(n) < _LARGEST else _LARGEST for n in scaled], np.int64)
    try:
        values = np.array(times)
    except OverflowError:
        values = np.array(times, object)
    if values.dtype == object:  # integers that nothing narrower holds
        values = np.array([float(time) if abs(time) < _SANE else _SANE for time in times])
    if values.dtype == np.int64 and (not len(values) or np.abs(values).max() < _LARGEST // 1000):
        return values * 1000
    values = values.astype(np.float64)
    values = np.where(np.abs(values) < _SANE, values, _SANE)
    whole = np.floor(values)
    large = np.flatnonzero(np.abs(values) >= _FINE).tolist()
    if any(type(times[row]) is float and abs(times[row]) < _SANE for row in large):
        raise Imprecise
    nanoseconds: Ints = whole.astype(np.int64) * 1000 + np.rint((values - whole) * 1000).astype(np.int64)
    return nanoseconds


def _stream_of(event: Event) -> int:
    last = str(event.tid).rpartition(" ")[2]
    return int(last) if last.isdecimal() and len(last) < 18 else -1


def _small(value: Any, limit: int, other: int) -> int:
    return value if isinstance(value, int) and 0 <= value < limit else other


def _collective_of(args: Args) -> tuple[str, int, int, str, str, int, int]:
    name, dtype, group = (
        "" if text is None else str(text) for text in (args.collective, args.dtype, args.group)
    )
    elements_in, elements_out, size, sequence = (
        -1 if number is None else number
        for number in (args.elements_in, args.elements_out, args.group_size, args.collective_sequence)
    )
    return name, elements_in, elements_out, dtype, group, size, sequence


def _unwrap(data: bytes) -> str:
    """A string without its quotes, anything else on one line."""
    try:
        if data.startswith(b'"'):
            return str(msgspec.json.decode(data, type=str))
        if b"\n" in data:
            return json.dumps(msgspec.json.decode(data))
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass
    return data.decode(errors="replace")


def _only(mask: Mask, args: list[Args], column: Callable[[list[Args]], Ints]) -> Ints:
    """A column in which only the rows of the mask can have a value; the others get -1."""
    rows = np.flatnonzero(mask)
    if len(rows) == len(args):
        return column(args)
    some = column([args[row] for row in rows.tolist()])
    values = np.full(len(args), -1, some.dtype)  # texts are numbered in 32 bits
    values[rows] = some
    return values


def _fill(values: Ints, events: Events, other: Callable[[Event], int]) -> Ints:
    """The column, its missing values taken from other fields of the event."""
    for row in np.flatnonzero(values < 0).tolist():
        values[row] = other(events[row])
    return values


def _ints(args: list[Args], field: str) -> Ints:
    """Integers; -1 for null and for values that no id or size can have."""
    try:
        return np.fromiter(map(attrgetter(field), args), np.int64, len(args))
    except (OverflowError, TypeError):
        values = (getattr(each, field) for each in args)
        return np.array([v if v is not None and abs(v) < _LARGEST else -1 for v in values], np.int64)
