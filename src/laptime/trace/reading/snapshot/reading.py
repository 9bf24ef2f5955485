"""A memory snapshot into the columns that Kineto's traces have: its events, with the line that allocated."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from laptime.kit.errors import UsageError
from laptime.kit.text import count
from laptime.kit.units import show
from laptime.trace.columns import Trace
from laptime.trace.reading import assemble
from laptime.trace.reading.rows import Rows
from laptime.trace.reading.snapshot import history, plain_pickle

SUFFIXES = (".pickle", ".pkl")
FORMAT = "snapshot"
_CUDA = 1
_NEXT = "torch.cuda.memory._record_memory_history(), steps, torch.cuda.memory._dump_snapshot(FILE)"
_LIBRARY = re.compile(r"(site|dist)-packages/|/lib/python3|(^|/)torch/|^<|\.(c|cc|cpp|cu|h)$|^(\?\?)?$")
Frames = tuple[tuple[str, int, str], ...]


def read(path: Path) -> Trace:
    """A snapshot, every device of it.

    Raises:
        UsageError: it cannot be opened, is damaged, holds more than plain containers, or has no events.
    """
    try:
        content = plain_pickle.load(path)
        size = path.stat().st_size
    except OSError as error:
        raise UsageError(f"{path} cannot be read", why=error.strerror or str(error), next=_NEXT) from error
    except (plain_pickle.Foreign, ValueError) as error:
        raise UsageError(f"{path} is no memory snapshot", why=str(error), next=_NEXT) from error
    records = content.get("device_traces") if isinstance(content, dict) else None
    segments = content.get("segments") if isinstance(content, dict) else None
    records, segments = (each if isinstance(each, list) else None for each in (records, segments))
    if records is None and segments is None:
        why = "it has neither device_traces nor segments"
        raise UsageError(f"{path} is no memory snapshot", why=why, next=_NEXT)
    rows, warnings = _rows(records or [], [each for each in segments or [] if isinstance(each, dict)])
    if not rows.events:
        why = "no memory was allocated, or its history was not recorded"
        raise UsageError(f"{path} has no events", why=why, next=_NEXT)
    trace = assemble.trace([rows.part(size)], {}, name=path.name)
    return replace(trace, format=FORMAT, warnings=[*trace.warnings, *warnings])


def _rows(records: list[Any], segments: list[dict[str, Any]]) -> tuple[Rows, list[str]]:
    """Events of all devices; what there is to say about the record."""
    rows, warnings = Rows(), list[str]()
    last = max([len(records), *(each["device"] + 1 for each in segments if _is_device(each.get("device")))])
    for device in range(last):
        record = records[device] if device < len(records) else []
        changes = history.changes(record, [each for each in segments if each.get("device", 0) == device])
        failed = history.out_of_memory(record)
        if failed:
            requests = count(len(failed), "allocation")
            warnings.append(f"cuda:{device}: {requests} failed, the largest of {show(max(failed), 'B')}")
        if not changes:
            continue
        at, size, address, allocated, reserved = (
            np.array(column, np.uint64 if number == 2 else np.int64)
            for number, column in enumerate(list(zip(*changes, strict=True))[:5])
        )
        rows.add(
            "memory",
            at=at,
            thread=rows.thread("", "allocator"),
            bytes=size,
            address=address.astype(np.int64),
            allocated=allocated,
            reserved=reserved,
            device_type=_CUDA,
            device=device,
            place=rows.texts(place(change.frames) for change in changes),
        )
    return rows, warnings


@lru_cache(1 << 16)
def place(frames: Frames) -> str:
    """The innermost line that is the user's, `pkg/file.py(12): function`; a library's where there is none."""
    python = [frame for frame in frames if frame[0].endswith(".py")]
    own = [frame for frame in python if not _LIBRARY.search(frame[0])]
    for file, line, function in own or python or frames[:1]:
        return f"{'/'.join(Path(file).parts[-2:])}({line}): {function}"
    return ""


def _is_device(value: Any) -> bool:
    return isinstance(value, int) and 0 <= value < 1024
