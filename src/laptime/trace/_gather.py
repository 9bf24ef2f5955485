"""Events into columns, chunk by chunk: what one process collects of one file."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import msgspec
import numpy as np
from msgspec import Raw, Struct

from laptime.trace._decode import Event, Events
from laptime.trace.columns import DeviceKind, HostKind, Ints

_RANGE, _MEMORY, _FLOW, _THREAD_NAME, _SKIP = 20, 30, 40, 50, 99
_DEVICE = 10

WEEK = 7 * 86_400 * 1_000_000_000
_LARGEST = 1 << 62
_SANE = 4.5e15
"""Microseconds (142 years) above which a number is no time."""
_FINE = float(1 << 43)
"""Microseconds (102 days) up to which a float64 names a nanosecond: it is off by 0.49 ns at most."""


class Imprecise(Exception):
    """Times are so large that floats do not hold their nanoseconds; decode again, exactly."""


class Part(Struct):
    """Columns of one stretch of a file, as raw bytes, so that another process can send them.

    Attributes:
        columns: "table.column" -> (dtype, bytes).
        texts: named by index columns; threads: (pid, tid) as written; collectives: as tuples.
    """

    columns: dict[str, tuple[str, bytes]] = {}
    texts: list[str] = []
    threads: list[tuple[str, str]] = []
    thread_names: dict[str, str] = {}
    collectives: list[tuple[str, int, int, str, str, int, int]] = []
    events: int = 0
    lost: int = 0
    absurd: int = 0
    capitals: bool = False
    flows: list[str] = []
    head: bytes = b""
    tail: bytes = b""
    size: int = 0
    truncated: bool = False
    odd: int = 0

    def column(self, name: str) -> Any:
        """One column as an array."""
        dtype, data = self.columns[name]
        return np.frombuffer(data, dtype)


class Gather:
    """Collects events; `part()` gives what was collected."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, str], int] = {}
        self._texts: dict[str, int] = {}
        self._raws: dict[bytes, int] = {b"": -1, b"null": -1, b'""': -1}
        self._threads: dict[tuple[Any, Any], int] = {}
        self._keys: dict[tuple[str, str], int] = {}
        self._collectives: dict[tuple[Any, ...], int] = {}
        self._columns: dict[str, list[np.ndarray[Any, Any]]] = {}
        self._part = Part()
        self._flows: set[str] = set()
        self._exact = False

    def add(self, events: Events) -> None:
        """Take one chunk.

        Raises:
            Imprecise: a time is too large for its float.
        """
        self._part.events += len(events)
        groups = self._groups
        codes = []
        for event in events:
            code = groups.get((event.ph, event.cat))
            if code is None:
                code = self._classify(event)
            codes.append(code)
        array = np.array(codes, np.int16)
        self._take(events, codes, array < _DEVICE, self._host)
        self._take(events, codes, (array >= _DEVICE) & (array < _RANGE), self._device)
        self._take(events, codes, array == _RANGE, self._ranges)
        self._take(events, codes, array == _MEMORY, self._memory)
        self._take(events, codes, array == _FLOW, self._arrows)
        for row in np.flatnonzero(array == _THREAD_NAME).tolist():
            event = events[row]
            if event.name == "thread_name":
                self._part.thread_names[f"{event.pid}/{event.tid}"] = str(event.args.name)

    def part(self) -> Part:
        """All that was collected."""
        part = self._part
        for name, arrays in self._columns.items():
            whole = np.concatenate(arrays)
            part.columns[name] = (whole.dtype.str, whole.tobytes())
            arrays.clear()
        part.texts = list(self._texts)
        part.threads = list(self._keys)
        part.collectives = list(self._collectives)  # type: ignore[arg-type]
        part.flows = sorted(self._flows)
        return part

    def _classify(self, event: Event[Any]) -> int:
        """The group of a kind of event, remembered; memory events of format A have a name, no category."""
        if event.ph == "i" and event.cat in ("", "cpu_instant_event"):
            return _MEMORY if event.name == "[memory]" else _SKIP
        code = group(event.ph, event.cat)
        if event.ph == "s" and event.cat not in ("fwdbwd", "forward_backward"):
            self._flows.add(event.cat)
        if event.ph == "X" and event.cat[:1].isupper() and event.cat != "Trace":
            self._part.capitals = True
        self._groups[event.ph, event.cat] = code
        return code

    def _take(
        self,
        events: Events,
        codes: list[int],
        mask: np.ndarray[Any, Any],
        into: Callable[[Events, list[int]], None],
    ) -> None:
        rows = np.flatnonzero(mask)
        if len(rows) == len(events):
            into(events, codes)
        elif len(rows):
            index = rows.tolist()
            into([events[row] for row in index], [codes[row] for row in index])

    def _host(self, events: Events, codes: list[int]) -> None:
        args = [event.args for event in events]
        start, end, keep = self._times(events)
        columns = {
            "start": start,
            "end": end,
            "name": self._names(events),
            "kind": np.array(codes, np.int8),
            "thread": self._thread(events),
            "correlation": _ints([a.correlation for a in args]),
            "shapes": self._raw([a.dims or a.dims_b for a in args]),
            "types": self._raw([a.types for a in args]),
            "stack": self._raw([a.stack for a in args]),
            "module": self._raw([a.hierarchy for a in args]),
            "concrete": self._raw([a.concrete for a in args]),
            "python_id": _small([a.python_id for a in args]),
            "python_parent": _small([a.python_parent for a in args]),
            "module_id": _small([a.module_id for a in args]),
            "sequence": _ints([a.sequence for a in args]),
            "forward_thread": _ints([a.forward_thread for a in args]),
        }
        self._append("host", columns, keep)

    def _device(self, events: Events, codes: list[int]) -> None:
        args = [event.args for event in events]
        start, end, keep = self._times(events)
        columns = {
            "start": start,
            "end": end,
            "name": self._names(events),
            "kind": np.array(codes, np.int8) - np.int8(_DEVICE),
            "device": _small([_device_of(event) for event in events]),
            "stream": _ints([_stream_of(event) for event in events]),
            "correlation": _ints([a.correlation for a in args]),
            "blocks_per_sm": _floats([a.blocks_per_sm for a in args]),
            "occupancy": _floats([a.occupancy for a in args]),
            "grid": self._raw([a.grid for a in args]),
            "block": self._raw([a.block for a in args]),
            "registers": _small([a.registers for a in args]),
            "shared_memory": _ints([a.shared_memory for a in args]),
            "bytes": _ints([a.bytes if a.bytes >= 0 else a.size for a in args]),
            "collective": np.array([self._collective(event) for event in events], np.int32),
            "graph": _ints([a.graph for a in args]),
        }
        self._append("device", columns, keep)

    def _ranges(self, events: Events, codes: list[int]) -> None:
        start, end, keep = self._times(events)
        columns = {
            "start": start,
            "end": end,
            "name": self._names(events),
            "device": _small([_device_of(event) for event in events]),
            "stream": _ints([_stream_of(event) for event in events]),
        }
        self._append("ranges", columns, keep)

    def _memory(self, events: Events, codes: list[int]) -> None:
        args = [event.args for event in events]
        at = self._instants(events)
        columns = {
            "at": at,
            "thread": self._thread(events),
            "bytes": _ints([a.memory_bytes for a in args]),
            "address": np.array([a.address % (1 << 64) for a in args], np.uint64),
            "allocated": _ints([a.allocated for a in args]),
            "reserved": _ints([a.reserved for a in args]),
            "device_type": _small([a.device_type for a in args]),
            "device": _small([a.device_id for a in args]),
        }
        self._append("memory", columns, np.ones(len(events), bool))

    def _arrows(self, events: Events, codes: list[int]) -> None:
        known = [event for event in events if isinstance(event.id, int) and abs(event.id) < _LARGEST]
        columns = {
            "id": _ints([event.id for event in known]),
            "at": self._instants(known),
            "thread": self._thread(known),
            "begin": np.array([event.ph == "s" for event in known], bool),
        }
        self._append("flows", columns, np.ones(len(known), bool))

    def _append(self, table: str, columns: dict[str, np.ndarray[Any, Any]], keep: Any) -> None:
        whole = bool(keep.all())
        for name, values in columns.items():
            self._columns.setdefault(f"{table}.{name}", []).append(values if whole else values[keep])

    def _instants(self, events: Events) -> Ints:
        return self._nanoseconds([event.ts for event in events])

    def _times(self, events: Events) -> tuple[Ints, Ints, Any]:
        """Starts and ends in ns, and which are sane: no longer than a week, not before their start."""
        start = self._nanoseconds([event.ts for event in events])
        took = self._nanoseconds([event.dur for event in events])
        took[took == -1000] = 0  # an event without duration
        keep = (took >= 0) & (took <= WEEK) & (np.abs(start) < int(_SANE * 1000))
        self._part.absurd += int(len(events) - keep.sum())
        return start, np.where(keep, start + took, start), keep

    def _nanoseconds(self, times: list[Any]) -> Ints:
        """Microseconds as written to whole nanoseconds."""
        if times and isinstance(times[0], Decimal):
            scaled = [round(time * 1000) for time in times]
            return np.array([n if abs(n) < _LARGEST else _LARGEST for n in scaled], np.int64)
        try:
            values = np.array(times)
        except OverflowError:
            values = np.array([float(time) for time in times])
        if values.dtype == np.int64 and (not len(values) or np.abs(values).max() < _LARGEST // 1000):
            return values * 1000
        values = values.astype(np.float64)
        values = np.where(np.abs(values) < _SANE, values, _SANE)
        whole = np.floor(values)
        part = values - whole
        large = np.flatnonzero(np.abs(values) >= _FINE).tolist()
        if any(type(times[row]) is float and abs(times[row]) < _SANE for row in large):
            raise Imprecise
        found: Ints = whole.astype(np.int64) * 1000 + np.rint(part * 1000).astype(np.int64)
        return found

    def _names(self, events: Events) -> Any:
        texts = self._texts
        return np.array([texts.setdefault(event.name, len(texts)) for event in events], np.int32)

    def _raw(self, values: list[Raw]) -> Any:
        """Texts of values that are kept as they are written; one that is a string is unescaped."""
        known = self._raws
        found = []
        for value in values:
            if not value:
                found.append(-1)
                continue
            data = bytes(value)
            index = known.get(data)
            if index is None:
                index = known[data] = self._texts.setdefault(_unwrapped(data), len(self._texts))
            found.append(index)
        return np.array(found, np.int32)

    def _thread(self, events: Events) -> Any:
        known = self._threads
        found = []
        for event in events:
            key = (event.pid, event.tid)
            index = known.get(key)
            if index is None:
                written = (str(event.pid), str(event.tid))
                index = known[key] = self._keys.setdefault(written, len(self._keys))
            found.append(index)
        return np.array(found, np.int32)

    def _collective(self, event: Event[Any]) -> int:
        args = event.args
        if not args.collective:
            return -1
        row = (
            args.collective,
            args.elements_in,
            args.elements_out,
            args.dtype,
            str(args.group),
            args.group_size,
            args.collective_sequence,
        )
        return self._collectives.setdefault(row, len(self._collectives))


def group(ph: str, category: str) -> int:
    """What kind of event a phase and a category make, in all formats and on all accelerators."""
    category = category.lower()
    if ph == "X":
        return _complete(category)
    if ph in "sf" and category in ("fwdbwd", "forward_backward"):
        return _FLOW
    return _THREAD_NAME if ph == "M" else _SKIP


_DEVICE_WORK = {
    "kernel": DeviceKind.KERNEL,
    "concurrent_kernel": DeviceKind.KERNEL,
    "mtia_ccp_events": DeviceKind.KERNEL,
    "memcpy": DeviceKind.MEMCPY,
    "gpu_memcpy": DeviceKind.MEMCPY,
    "memset": DeviceKind.MEMSET,
    "gpu_memset": DeviceKind.MEMSET,
}
_HOST = {
    "operator": HostKind.OPERATOR,
    "cpu_op": HostKind.OPERATOR,
    "user_annotation": HostKind.ANNOTATION,
    "runtime": HostKind.RUNTIME,
    "python": HostKind.PYTHON,
    "python_function": HostKind.PYTHON,
    "overhead": HostKind.OVERHEAD,
}


def _complete(category: str) -> int:
    if category in _DEVICE_WORK:
        return _DEVICE + _DEVICE_WORK[category]
    if category in _HOST:
        return _HOST[category]
    if category.endswith("_runtime"):
        return HostKind.RUNTIME
    if category.endswith("_driver"):
        return HostKind.DRIVER
    if category in ("gpu_user_annotation", "mtia_user_annotation", "xpu_user_annotation"):
        return _RANGE
    if category in ("trace", "cuda_sync", "cuda_profiler_range"):
        return _SKIP
    return HostKind.OTHER


def _device_of(event: Event[Any]) -> int:
    if event.args.device >= 0:
        return event.args.device
    return event.pid if isinstance(event.pid, int) and 0 <= event.pid < 1 << 16 else 0


def _stream_of(event: Event[Any]) -> int:
    if event.args.stream >= 0:
        return event.args.stream
    last = str(event.tid).rpartition(" ")[2]
    return int(last) if last.isdigit() else -1


def _unwrapped(data: bytes) -> str:
    if data.startswith(b'"'):
        try:
            return str(msgspec.json.decode(data, type=str))
        except (msgspec.DecodeError, UnicodeDecodeError):
            pass
    return data.decode(errors="replace")


def _ints(values: list[Any]) -> Any:
    try:
        return np.array(values, np.int64)
    except OverflowError:
        return np.array([value if abs(value) < _LARGEST else -1 for value in values], np.int64)


def _small(values: list[int | None]) -> Any:
    """Ids as int32; None and what does not fit is -1."""
    try:
        return np.array([-1 if value is None else value for value in values], np.int32)
    except OverflowError:
        return np.array([v if v is not None and abs(v) < 1 << 31 else -1 for v in values], np.int32)


def _floats(values: list[float | None]) -> Any:
    return np.array([np.nan if value is None else value for value in values], np.float64)
