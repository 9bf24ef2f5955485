"""Columns of a trace that a reader fills, table by table: texts and threads are numbered, gaps are filled."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from laptime.trace.columns import NONE, DeviceWork, Host, Ints, MemoryEvents
from laptime.trace.reading.gather import WEEK, Part

_TABLES: dict[str, tuple[str, ...]] = {
    "host": tuple(Host.__dataclass_fields__),
    "device": tuple(DeviceWork.__dataclass_fields__),
    "memory": tuple(MemoryEvents.__dataclass_fields__),
}
_FLOATS = ("blocks_per_sm", "occupancy")
_LATEST = 1 << 61
"""ns after which a time is damage."""


class Rows:
    """The rows of one file."""

    def __init__(self) -> None:
        self._columns: dict[str, list[Any]] = {}
        self._texts = dict[str, int]()
        self._threads = dict[tuple[str, str], int]()
        self._names = dict[str, str]()
        self.events = self._absurd = 0

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
        sane = _sane({name: columns[name] for name in ("start", "end", "at") if name in columns}, length)
        self.events += length
        self._absurd += length - int(sane.sum())
        for field in _TABLES[table]:
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
            size=size,
        )


def _sane(times: dict[str, Any], length: int) -> Any:
    """Which rows have times that damage need not explain."""
    sane = np.ones(length, bool)
    for values in times.values():
        sane &= (np.asarray(values) >= 0) & (np.asarray(values) < _LATEST)
    if "end" in times:
        lasts = np.asarray(times["end"]) - np.asarray(times["start"])
        sane &= (lasts >= 0) & (lasts <= WEEK)
    return sane
