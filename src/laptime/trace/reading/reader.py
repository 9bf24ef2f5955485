"""A trace file into columns: Kineto's of any version here, those of other tools by their own readers
(`OTHERS`).

Large plain files are cut into stretches that other processes decode at the same time; packed ones are
unpacked on a thread ahead of the decoding. Memory holds the columns and a few blocks, never the file."""

import contextlib
import gc
import io
import json
import os
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from laptime.kit.errors import UsageError
from laptime.kit.text import count
from laptime.trace.columns import HostKind, Trace
from laptime.trace.reading import (
    assemble,
    nsys,
    parallel_decode,
    rocpd,
    rocprof_json,
    snapshot,
    sqlite,
    stream,
    torch_trace,
)
from laptime.trace.reading.decode import FAULTS
from laptime.trace.reading.gather import Imprecise, Part
from laptime.trace.reading.parallel_decode import gather_all
from laptime.trace.reading.stream import Cut, no_trace
from laptime.trace.reading.xplane import reading as xplane

OTHERS: dict[tuple[str, ...], Callable[[Path], Trace]] = {
    (xplane.SUFFIX,): xplane.read,
    (".sqlite", ".sqlite3", ".db"): lambda path: _database(path),
    snapshot.SUFFIXES: snapshot.read,
    torch_trace.SUFFIXES: torch_trace.read,
}
"""Files that are no Chrome traces, by the end of their names."""
_TOOLS = {"nsys": nsys, "rocpd": rocpd}
LARGE = 48 << 20  # bytes from which another process (0.15 s to start) pays for itself
_T = TypeVar("_T")


def read(path: Path, *, processes: int | None = None) -> Trace:
    """One trace file, plain or packed; a damaged one as far as it can be read.
    path: the file. processes: how many may decode at once; None takes the CPUs that there are, at most 4.
    Raises UsageError: it cannot be opened, or it is no trace."""
    for suffixes, read_other in OTHERS.items():
        if path.name.endswith(suffixes):
            return read_other(path)
    try:
        opener = stream.opener(path)
        size = path.stat().st_size
        if opener is None and rocprof_json.is_own(path):
            return rocprof_json.read(path)
    except OSError as error:
        raise stream.unreadable(path, error, "name a .json or .json.gz file, or a folder of them") from error
    with _named(path), _no_collection():
        if opener:
            parts, broken = _exactly(lambda exact: _unpack(path, opener, exact=exact))
            return _trace(parts, path.name, broken)
        processes = processes or min(4, len(os.sched_getaffinity(0)))
        if size >= LARGE and processes > 1:
            stretches = _exactly(lambda exact: parallel_decode.read(path, size, processes, exact=exact))
            if stretches is not None:
                return _trace(stretches, path.name)
        with path.open("rb") as file:
            return _stream(file, path.name)


def _database(path: Path) -> Trace:
    """An export of Nsight Systems, or a database of rocprof; UsageError if it is neither, or empty."""
    step = "nsys export --type sqlite REPORT.nsys-rep, or rocprofv3 --sys-trace --output-format rocpd"
    try:
        size = path.stat().st_size
        with sqlite.opened(path) as tables:
            tool = next((name for name, each in _TOOLS.items() if each.is_own(tables.names)), "")
            if not tool:
                why = "its tables are neither those of Nsight Systems nor those of rocpd"
                raise UsageError(f"{path} is not a profile", why=why, next=step)
            rows, about = _TOOLS[tool].read(tables)
            said = nsys.diagnostics(tables) if not rows.events and tool == "nsys" else []
    except (OSError, sqlite3.Error, UnicodeDecodeError) as error:  # the last in a message of damage
        why = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"{path} cannot be read", why=why, next=step) from error
    if not rows.events:
        why = "; ".join(["its tables of calls, kernels, copies and ranges are empty", *said])
        if tool == "nsys":
            step = (
                "nsys profile --trace=cuda,nvtx python SCRIPT, then nsys export --type sqlite REPORT.nsys-rep"
            )
        raise UsageError(f"{path} has no events", why=why, next=step)
    return replace(assemble.trace([rows.part(size)], about, name=path.name), format=tool)


def head(path: Path) -> dict[str, Any]:
    """The JSON in front of the events, if a file says whose it is; {} if it says nothing.
    Raises UsageError: it cannot be opened, or it is no trace."""
    try:
        opener = stream.opener(path)
        if opener is None:
            with path.open("rb") as file:
                return _head(file.read)
    except OSError as error:
        raise stream.unreadable(path, error) from error
    ahead = stream.Ahead(path, opener)
    try:
        return _head(ahead.read)
    finally:
        ahead.close()


def _head(read: Callable[[int], bytes]) -> dict[str, Any]:
    cut = Cut(read)
    cut.find_list()
    return _metadata([Part(head=cut.head)])


def parse(data: bytes, *, name: str = "trace.json") -> Trace:
    """The same for bytes in memory."""
    with _no_collection():
        return _stream(io.BytesIO(data), name)


def _stream(file: io.BufferedIOBase | io.BufferedReader | io.BytesIO, name: str) -> Trace:
    def whole(exact: bool) -> list[Part]:
        file.seek(0)
        return [gather_all(Cut(file.read, exact=exact))]

    return _trace(_exactly(whole), name)


def _trace(parts: list[Part], name: str, broken: str = "") -> Trace:
    """The parts as one trace. Raises UsageError: there is no event in them, but something else."""
    if not any(part.events for part in parts) and (lost := sum(part.lost for part in parts)):
        raise no_trace(f"of {count(lost, 'element')} in its list none is an event")
    metadata = _metadata(parts)
    trace = assemble.trace(parts, metadata, name=name, broken=broken)
    host = trace.host
    if (host.kind != HostKind.OTHER).any() or len(trace.device) + len(trace.memory):
        return trace
    names = dict.fromkeys(host.name[:50].tolist())
    called = ", ".join(trace.texts[name] for name in names)
    if len(host):
        called = f". They are called {called[:80]}{'...' if len(called) > 80 else ''}"
        lacks = f"none of its {count(len(host), 'range')} is of a category that torch.profiler writes"
    elif trace.events and metadata.keys() <= _ANYBODYS and not (trace.warnings or trace.truncated):
        lacks = f"none of its {count(trace.events, 'event')} is a range (ph X) as torch.profiler writes it"
    else:
        return trace
    raise no_trace(
        f"{lacks} (cpu_op, user_annotation, cuda_runtime, kernel ...): there are neither operators nor work"
        f" of a device{called}"
    )


_ANYBODYS = {"traceEvents", "displayTimeUnit", "otherData", "metadata"}
"""Keys of Chrome traces of any tool: PyTorch's have others, too, also without any work in them."""


def _unpack(path: Path, opener: stream.Opener, *, exact: bool) -> tuple[list[Part], str]:
    ahead = stream.Ahead(path, opener)
    try:
        return [gather_all(Cut(ahead.read, exact=exact))], ahead.broken
    except UsageError as error:
        if ahead.broken:
            raise UsageError(
                f"{path} is damaged from its beginning", why=ahead.broken, next="write the trace again"
            ) from error
        raise
    finally:
        ahead.close()


def _exactly(attempt: Callable[[bool], _T]) -> _T:
    """Floats first; decimals (three times slower) only if floats would lose nanoseconds."""
    try:
        return attempt(False)
    except Imprecise:
        return attempt(True)


def _metadata(parts: list[Part]) -> dict[str, Any]:
    """The JSON around the events; {} if it cannot be read."""
    head, tail = parts[0].head, parts[-1].tail
    if not head:
        return {}
    for text in (head + b"]" + tail, head + b"]}"):
        with contextlib.suppress(*FAULTS):
            metadata = msgspec.json.decode(text)
            return metadata if isinstance(metadata, dict) else {}
        with contextlib.suppress(ValueError, RecursionError):
            metadata = json.loads(text.decode(errors="replace"), strict=False)
            return metadata if isinstance(metadata, dict) else {}
    return {}


@contextlib.contextmanager
def _named(path: Path) -> Iterator[None]:
    """Errors of a file's content say which file."""
    try:
        yield
    except UsageError as error:
        if error.what.startswith("this "):
            what = f"{path} {error.what.removeprefix('this ')}"
            raise UsageError(what, why=error.why, next=error.next) from error
        raise


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """A million short-lived events hold no cycles; looking for some costs a third of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
