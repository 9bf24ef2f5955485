"""A log of torch.compile (`TORCH_TRACE=FOLDER python train.py`), which tlparse reads, too: what was
compiled and why again.

A line in glog's form has one JSON object; lines that begin with a tab are its payload. Three kinds are read:
`compilation_metrics` (one a compilation, with its times), the artifact `recompile_reasons` before it, and
`chromium_event`s, whose ranges become annotations `NAME (dynamo_timed)` as Kineto writes them.
Source: torch/_logging/structured.py, torch/_dynamo/utils.py (CompilationMetrics), torch/_dynamo/guards.py."""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
from msgspec import structs

from laptime.kit.errors import UsageError
from laptime.records.tables import Compilation
from laptime.trace.columns import HostKind, Trace
from laptime.trace.reading import assemble
from laptime.trace.reading.assemble import Rows

SUFFIXES = (".log",)
FORMAT = "torch_trace"
_NEXT = "TORCH_TRACE=FOLDER python SCRIPT, then laptime trace FOLDER/dedicated_log_torch_trace_*.log"
_LINE = re.compile(r"(?:\[rank\d+\]: ?)?V\d{4} [\d:.]+ \d+ \S+:\d+\] (\{.*)")
_WANTED = ('"compilation_metrics"', '"recompile_reasons"', '"chromium_event"')
_LONGEST = 300  # characters of a reason that are kept


def read(path: Path) -> Trace:
    """A log of one process. Raises UsageError: it cannot be opened, or tells of no compilation."""
    try:
        size = path.stat().st_size
        with path.open(encoding="utf-8", errors="replace") as lines:
            compilations, rows = _read(lines)
    except OSError as error:
        raise UsageError(f"{path} cannot be read", why=error.strerror or str(error), next=_NEXT) from error
    if not compilations:
        raise UsageError(
            f"{path} is not a log of torch.compile", why="no line reports a compilation", next=_NEXT
        )
    trace = assemble.trace([rows.part(size)], {}, name=path.name)
    first = min(row.start_ns for row in compilations)
    ordered = sorted(compilations, key=lambda row: row.start_ns)
    relative = [structs.replace(row, start_ns=row.start_ns - first) for row in ordered]
    return replace(trace, format=FORMAT, compilations=relative)


def _read(lines: Iterable[str]) -> tuple[list[Compilation], Rows]:
    rows, compilations = Rows(), list[Compilation]()
    reasons, begun = dict[str, list[str]](), dict[tuple[Any, Any], list[float]]()
    ranges = list[tuple[float, float, str]]()
    for entry, payload in _entries(lines):
        if isinstance(metrics := entry.get("compilation_metrics"), dict):
            file, line = metrics.get("co_filename"), metrics.get("co_firstlineno")
            took, start = metrics.get("entire_frame_compile_time_s"), metrics.get("start_time")
            row = Compilation(
                id=str(metrics.get("compile_id") or ""),
                function=str(metrics.get("co_name") or ""),
                place=f"{Path(str(file)).name}:{line}" if file else "",
                total_ns=round(took * 1e9) if _number(took) else 0,
                start_ns=round(start * 1e9) if _number(start) else 0,
                failed=_short(str(metrics.get("fail_reason") or "")),
            )
            compilations.append(structs.replace(row, reasons=reasons.pop(row.id, [])))
        elif "artifact" in entry:
            # Guards that failed: `tensor 'x' size mismatch at index 0. expected 4, actual 5`.
            content = _json(payload)
            texts = content if isinstance(content, list) else [payload]
            reasons[f"{entry.get('frame_id')}/{entry.get('frame_compile_id')}"] = [
                _short(re.sub(r"^\d+/\d+: ", "", str(text).strip())) for text in texts if str(text).strip()
            ]
        elif (event := _json(payload)) and isinstance(event, dict) and _number(event.get("ts")):
            key = (event.get("name"), event.get("tid"))
            if event.get("ph") == "B":
                begun.setdefault(key, []).append(event["ts"])
            elif event.get("ph") == "E" and begun.get(key):
                ranges.append((begun[key].pop(), event["ts"], f"{key[0]} (dynamo_timed)"))
    if ranges:
        rows.add(
            "host",
            start=np.array([round(start * 1000) for start, _, _ in ranges]),
            end=np.array([round(end * 1000) for _, end, _ in ranges]),
            name=rows.texts(name for _, _, name in ranges),
            thread=rows.thread("", "compilation"),
            kind=int(HostKind.ANNOTATION),
        )
    return compilations, rows


def _entries(lines: Iterable[str]) -> Iterator[tuple[dict[str, Any], str]]:
    """Every entry of the kinds that are read, with its payload; damaged ones are passed over."""
    head, payload = "", list[str]()
    for line in chain(lines, ["\n"]):
        if line.startswith("\t"):
            payload += [line[1:]] if head else []
            continue
        if head and isinstance(entry := _json(head), dict):
            yield entry, "".join(payload)
        match = _LINE.match(line)
        head, payload = match[1] if match and any(word in line for word in _WANTED) else "", []


def _short(text: str) -> str:
    """A reason without the source and the stack behind it."""
    return re.split(r"\s+# |\n", text, maxsplit=1)[0][:_LONGEST]


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e18
