"""Parts of a file into one Trace, and the columns that a reader of another format fills.

Parts share texts and threads; rows are sorted, times are from zero. A reader fills `Rows` table by table:
texts and threads are numbered, gaps are filled."""

import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from laptime.kit.text import count
from laptime.trace.columns import (
    NONE,
    Accelerator,
    Collective,
    DeviceKind,
    DeviceRanges,
    DeviceWork,
    Flows,
    Host,
    HostKind,
    Ints,
    MemoryEvents,
    Thread,
    Trace,
)
from laptime.trace.reading.gather import WEEK, Part

TEXTS = ("name", "shapes", "types", "stack", "module", "grid", "block", "place", "holder")
_TYPES: dict[str, type[np.generic]] = {
    "name": np.int32, "shapes": np.int32, "types": np.int32, "stack": np.int32, "module": np.int32,
    "thread": np.int32, "place": np.int32, "holder": np.int32,
    "module_id": np.int32, "device": np.int32, "grid": np.int32, "block": np.int32, "registers": np.int32,
    "collective": np.int32, "device_type": np.int32, "kind": np.int8, "begin": np.bool_,
    "blocks_per_sm": np.float64, "occupancy": np.float64, "address": np.uint64,
}  # fmt: skip
_TABLES: dict[str, type[Any]] = {
    "host": Host,
    "device": DeviceWork,
    "ranges": DeviceRanges,
    "memory": MemoryEvents,
    "flows": Flows,
}
# Of two ranges with the same ends the outer one is first.
_OUTER = {HostKind.PYTHON: 0, HostKind.ANNOTATION: 1, HostKind.OPERATOR: 2, HostKind.RUNTIME: 3}


def trace(parts: list[Part], metadata: dict[str, Any], *, name: str, broken: str = "") -> Trace:
    """One trace from its parts in file order."""
    texts, text_maps = _merge([part.texts for part in parts])
    keys, thread_maps = _merge([part.threads for part in parts])
    groups, collective_maps = _merge([part.collectives for part in parts])
    maps = {"collective": collective_maps, "thread": thread_maps, **dict.fromkeys(TEXTS, text_maps)}

    def table(title: str, kind: type[Any]) -> Any:
        fields = list(kind.__dataclass_fields__)
        columns = {field: _column(parts, f"{title}.{field}", field, maps.get(field)) for field in fields}
        length = max(map(len, columns.values()))
        for field in fields:  # what only some readers know
            if len(columns[field]) < length:
                columns[field] = np.full(length, -1, columns[field].dtype)
        order = _order(columns)
        for field in fields:  # one after the other: the unsorted and the sorted table never both exist
            columns[field] = columns[field][order]
        return kind(**columns)

    tables = {title: table(title, kind) for title, kind in _TABLES.items()}
    tables["device"], lengthless = _with_length(tables["device"])
    origin = _from_zero(*tables.values())
    names = {key: text for part in parts for key, text in part.thread_names.items()}
    distributed = metadata.get("distributedInfo")
    distributed = distributed if isinstance(distributed, dict) else {}
    base = metadata.get("baseTimeNanoseconds")
    return Trace(
        name=name,
        size=sum(part.size for part in parts),
        origin=origin,
        base=base if isinstance(base, int) else 0,
        format=_format(parts, metadata),
        api=next((part.api for part in parts if part.api), ""),
        texts=texts,
        threads=[Thread(pid, tid, names.get(f"{pid}/{tid}", "")) for pid, tid in keys],
        host=tables["host"],
        device=tables["device"],
        device_ranges=tables["ranges"],
        memory=tables["memory"],
        flows=tables["flows"],
        accelerators=_accelerators(metadata),
        collectives=[Collective(*row) for row in groups],
        rank=whole(distributed.get("rank")),
        world=whole(distributed.get("world_size")),
        distributed={key: value for key, value in distributed.items() if key not in ("rank", "world_size")},
        facts=_facts(metadata),
        events=sum(part.events for part in parts),
        truncated=parts[-1].truncated or bool(broken),
        warnings=_warnings(parts, broken, lengthless),
    )


_MANY = 0.25
"""Share of kernels from which on a length of 0 is not knowing it: whole microseconds round some to 0."""


def _with_length(device: DeviceWork) -> tuple[DeviceWork, int]:
    """The device's work without kernels of no length, if they are too many; how many were left out."""
    kernels = device.kind == DeviceKind.KERNEL
    empty = kernels & (device.start == device.end)
    if empty.sum() < max(2, _MANY * kernels.sum()):
        return device, 0
    columns = {name: column[~empty] for name, column in vars(device).items()}
    return DeviceWork(**columns), int(empty.sum())


def _merge(lists: list[list[Any]]) -> tuple[list[Any], list[Any]]:
    """All distinct values in order of appearance, and for each list the new indices of its values."""
    indices: dict[Any, int] = {}
    maps = []
    for values in lists:
        # The last entry is where index -1 leads: nowhere.
        maps.append(np.array([*(indices.setdefault(v, len(indices)) for v in values), -1], np.int32))
    return list(indices), maps


def _column(parts: list[Part], name: str, field: str, maps: list[Any] | None) -> Any:
    arrays = []
    for number, part in enumerate(parts):
        if name in part.columns:
            values = part.column(name)
            arrays.append(maps[number][values] if maps else values)
            del part.columns[name]
    kind = _TYPES.get(field, np.int64)
    if not arrays:
        return np.empty(0, kind)
    whole = arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
    if kind is np.int32 and whole.dtype != np.int32:
        whole = np.where(np.abs(whole) < 1 << 31, whole, -1)
    if field in ("registers", "shared_memory"):
        whole = np.maximum(whole, -1)
    return whole.astype(kind, copy=False)


def _order(columns: dict[str, Any]) -> Any:
    """Sort the rows as the column classes promise; ties keep the order of the file."""
    if "id" in columns:
        return np.lexsort((~columns["begin"], columns["id"]))
    if "at" in columns:
        return np.argsort(columns["at"], kind="stable")
    if "kind" in columns and "thread" in columns:
        outer = np.full(int(max(HostKind)) + 1, 4, np.int8)
        for kind, rank in _OUTER.items():
            outer[kind] = rank
        return np.lexsort((outer[columns["kind"]], -columns["end"], columns["start"], columns["thread"]))
    return np.lexsort((columns["end"], columns["start"]))


def _from_zero(*tables: Any) -> int:
    """Move all times so that the first event of the file is at 0; what was taken off, in ns."""
    times = [getattr(t, n) for t in tables for n in ("start", "at") if hasattr(t, n)]
    firsts = [int(values.min()) for values in times if len(values)]
    origin = min(firsts, default=0)
    for table in tables:
        for field in ("start", "end", "at"):
            values = getattr(table, field, None)
            if values is not None:
                values -= origin
    return origin


def _format(parts: list[Part], metadata: dict[str, Any]) -> str:
    """Say which generation of PyTorch wrote it."""
    flows = {flow for part in parts for flow in part.flows}
    if any(part.capitals for part in parts):
        return "A"
    if "async_cpu_to_gpu" in flows or "async_gpu" in flows:
        return "B"
    return "D" if "baseTimeNanoseconds" in metadata or "trace_id" in metadata else "C"


def _accelerators(metadata: dict[str, Any]) -> list[Accelerator]:
    properties = metadata.get("deviceProperties")
    rows = [row for row in properties if isinstance(row, dict)] if isinstance(properties, list) else []
    return [
        Accelerator(
            id=whole(row.get("id")) or 0,
            name=str(row.get("name", "")),
            memory=whole(row.get("totalGlobalMem")) or 0,
            capability=(whole(row.get("computeMajor")) or 0, whole(row.get("computeMinor")) or 0),
            sms=whole(row.get("numSms")) or 0,
            threads_per_sm=whole(row.get("maxThreadsPerMultiprocessor")) or 0,
        )
        for row in rows
    ]


_NOT_FACTS = re.compile(r"traceEvents|traceName|trace_id|baseTimeNanoseconds|displayTimeUnit|username|INFO")


def _facts(metadata: dict[str, Any]) -> dict[str, Any]:
    """Short scalars that say how the trace was made; no names of people or folders."""
    return {
        key: value
        for key, value in metadata.items()
        if isinstance(value, str | int | float | bool) and len(str(value)) <= 80 and not _NOT_FACTS.match(key)
    }


def whole(value: Any) -> int | None:
    """A whole number, also one written as a text; None for anything else."""
    if isinstance(value, str) and value.lstrip("-").isdigit():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _warnings(parts: list[Part], broken: str, lengthless: int) -> list[str]:
    warnings = []
    if parts[-1].truncated or broken:
        why = f" ({broken})" if broken else ""
        warnings.append(f"the file ends in the middle{why}: what comes before the break is shown")
    if lost := sum(part.lost for part in parts):
        warnings.append(
            f"{count(lost, 'event')} could not be read and {'is' if lost == 1 else 'are'} left out"
        )
    if absurd := sum(part.absurd for part in parts):
        warnings.append(f"{count(absurd, 'event')} left out: negative times, or longer than a week")
    if timeless := sum(part.timeless for part in parts) + lengthless:
        warnings.append(
            f"{count(timeless, 'event')} without times (begin and length are 0 or missing) left out:"
            " what they did is in no figure"
        )
    return warnings


_ROW_TABLES: dict[str, tuple[str, ...]] = {
    "host": tuple(Host.__dataclass_fields__),
    "device": tuple(DeviceWork.__dataclass_fields__),
    "memory": tuple(MemoryEvents.__dataclass_fields__),
}
_FLOATS = ("blocks_per_sm", "occupancy")
_LATEST = 1 << 61  # ns after which a time is damage


class Rows:
    """The rows of one file."""

    def __init__(self) -> None:
        self._columns: dict[str, list[Any]] = {}
        self._texts = dict[str, int]()
        self._threads = dict[tuple[str, str], int]()
        self._names = dict[str, str]()
        self.events = self._absurd = self._timeless = 0

    def text(self, text: str) -> int:
        """The number of a text; NONE of an empty one."""
        return self._texts.setdefault(text, len(self._texts)) if text else NONE

    def texts(self, texts: Iterable[Any]) -> Ints:
        """The numbers of several texts."""
        return np.array([self.text(text if isinstance(text, str) else "") for text in texts], np.int64)

    def thread(self, pid: object, tid: object, name: str = "") -> int:
        """The number of a thread."""
        key = (str(pid), str(tid))
        if name:
            self._names["/".join(key)] = name
        return self._threads.setdefault(key, len(self._threads))

    def add(self, table: str, **columns: Any) -> None:
        """Rows of a table: arrays of one length, or one value for all; what is left out is unknown."""
        length = max(np.size(values) for values in columns.values())
        # Which rows have times that damage need not explain.
        times = {name: np.asarray(columns[name]) for name in ("start", "end", "at") if name in columns}
        sane = np.ones(length, bool)
        for values in times.values():
            sane &= (values >= 0) & (values < _LATEST)
        if "end" in times:
            lasts = times["end"] - times["start"]
            sane &= (lasts >= 0) & (lasts <= WEEK)
        timeless = np.zeros(length, bool)
        if "end" in times:
            timeless |= (times["start"] == 0) & (times["end"] == 0)
        self.events += length
        self._absurd += length - int((sane | timeless).sum())
        self._timeless += int(timeless.sum())
        sane &= ~timeless
        for field in _ROW_TABLES[table]:
            kind = np.float64 if field in _FLOATS else np.int64
            values = columns.get(field, np.nan if field in _FLOATS else NONE)
            whole = np.broadcast_to(np.asarray(values, kind), (length,))
            self._columns.setdefault(f"{table}.{field}", []).append(whole[sane])

    def part(self, size: int) -> Part:
        """All rows, as a file of so many bytes."""
        columns = {}
        for name, pieces in self._columns.items():
            whole = np.concatenate(pieces)
            columns[name] = (whole.dtype.str, whole.tobytes())
        return Part(
            columns=columns,
            texts=list(self._texts),
            threads=list(self._threads),
            thread_names=self._names,
            events=self.events,
            absurd=self._absurd,
            timeless=self._timeless,
            size=size,
        )
