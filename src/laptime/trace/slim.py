"""A small copy of a trace that ui.perfetto.dev (and laptime) opens: what ran when, and who launched it.

Left out: stacks, shapes, Python functions but those that load data, and single memory events. Added: counter
tracks of utilisation, queue length and memory. Times are exact: microseconds with three decimals since
`baseTimeNanoseconds`."""

import gzip
import itertools
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO, cast

import msgspec
import numpy as np

from laptime.trace import intervals, phases
from laptime.trace.columns import NONE, DeviceKind, HostKind, Index, Ints, Thread
from laptime.trace.tables.memory import device_name
from laptime.trace.tables.timeline import device_type
from laptime.trace.view import View

Ids = list[tuple[int, int]]
_HOST = {
    HostKind.OPERATOR: "cpu_op",
    HostKind.ANNOTATION: "user_annotation",
    HostKind.RUNTIME: "cuda_runtime",
    HostKind.DRIVER: "cuda_driver",
    HostKind.PYTHON: "python_function",
}
_DEVICE = {DeviceKind.KERNEL: "kernel", DeviceKind.MEMCPY: "gpu_memcpy", DeviceKind.MEMSET: "gpu_memset"}
_GROUP = ("Process Group Name", "Group size", "Seq")
_TALKS = ("Collective name", "In msg nelems", "Out msg nelems", "dtype", *_GROUP)
"""What files call the fields of `Collective`."""
_SIZES = ("numSms", "maxThreadsPerMultiprocessor")
_OF_DEVICE = ("id", "name", "totalGlobalMem", "computeMajor", "computeMinor", *_SIZES)
_BUCKETS = 1000
_BATCH = 10_000
Event = dict[str, Any]
encode = msgspec.json.Encoder().encode
_FIRST_ID = 1 << 30  # ids of threads whose own is not a number


def write(view: View, path: Path) -> None:
    """Write the slimmed trace, gzipped when the path ends in .gz. Raises OSError: it cannot be written."""
    with path.open("wb") as raw, ExitStack() as stack:
        file: BinaryIO = raw
        if path.suffix == ".gz":  # the archive holds no name and no time: the same events give the same bytes
            packed = gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=raw, mtime=0)
            file = cast(BinaryIO, stack.enter_context(packed))
        file.write(encode(_head(view)).removesuffix(b"}") + b', "traceEvents": [\n')
        events, comma = _events(view), b""
        while batch := b",\n".join(map(encode, itertools.islice(events, _BATCH))):
            file.write(comma + batch)
            comma = b",\n"
        file.write(b"\n]}\n")


def _head(view: View) -> dict[str, Any]:
    trace = view.trace
    properties = [
        dict(zip(_OF_DEVICE, (*accelerator[:3], *accelerator.capability, *accelerator[4:]), strict=True))
        for accelerator in trace.accelerators
    ]
    ranks = {"rank": trace.rank, "world_size": trace.world}
    job = {key: value for key, value in ranks.items() if value is not None} | trace.distributed
    return {
        "schemaVersion": 1,
        **trace.facts,
        "deviceProperties": properties,
        **({"distributedInfo": job} if job else {}),
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": trace.base + trace.origin,
    }


def _events(view: View) -> Iterator[Event]:
    threads = [_ids(index, thread) for index, thread in enumerate(view.trace.threads)]
    yield from _titles(view, threads)
    yield from _host(view, threads)
    yield from _device(view)
    yield from _ranges(view)
    yield from _flows(view, threads)
    yield from _utilisation(view)
    yield from _queue(view)
    yield from _memory(view, threads)


def _ids(index: int, thread: Thread) -> tuple[int, int]:
    """Process and thread as numbers, which is what Perfetto wants."""
    pid, tid = (
        int(text) if text.removeprefix("-").isdecimal() and text.isascii() else None
        for text in (thread.pid, thread.tid)
    )
    return _FIRST_ID if pid is None else pid, _FIRST_ID + index if tid is None else tid


def _titles(view: View, threads: Ids) -> Iterator[Event]:
    trace, kind = view.trace, device_type(view.trace)
    titles = [("process_name", process, 0, "CPU") for process in sorted({pid for pid, _ in threads})]
    for (pid, tid), thread in zip(threads, trace.threads, strict=True):
        if thread.name or str(tid) != thread.tid:
            name = thread.name or f"thread {thread.tid}"
            titles.append(("thread_name", pid, tid, name.encode(errors="backslashreplace").decode()))
    streams = np.unique(np.stack([trace.device.device.astype(np.int64), trace.device.stream]), axis=1)
    titles += [("process_name", each, 0, f"{kind}:{each}") for each in np.unique(streams[0]).tolist()]
    titles += [("thread_name", device, each, f"stream {each}") for device, each in streams.T.tolist()]
    for title, pid, tid, name in titles:
        yield {"ph": "M", "name": title, "pid": pid, "tid": tid, "ts": 0, "args": {"name": name}}


def _columns(*columns: Any) -> Iterator[tuple[Any, ...]]:
    """Rows of columns as plain numbers."""
    return zip(*(column.tolist() for column in columns), strict=True)


def _texts(view: View) -> list[str]:
    """All texts as valid Unicode, and one for -1."""
    return [*(text.encode(errors="backslashreplace").decode() for text in view.trace.texts), ""]


def _keep_known(args: dict[str, Any]) -> dict[str, Any]:
    """`args` without what is unknown: -1, NaN, an empty text."""
    known = {name: value for name, value in args.items() if value not in (NONE, "") and value == value}
    return {"args": known} if known else {}


def _make_range(category: str, name: str, ids: tuple[int, int], start: int, end: int) -> Event:
    times = {"ts": start / 1000, "dur": (end - start) / 1000}
    return {"ph": "X", "cat": category, "name": name, "pid": ids[0], "tid": ids[1], **times}


def _host(view: View, threads: Ids) -> Iterator[Event]:
    host, texts = view.trace.host, _texts(view)
    keep = np.isin(host.kind, list(_HOST)) & ((host.kind != HostKind.PYTHON) | phases.loading(view))
    ids: dict[str, Any] = {
        "correlation": host.correlation,
        "Sequence number": host.sequence,
        "Fwd thread id": host.forward_thread,
    }
    columns = (host.kind, host.name, host.thread, host.start, host.end, *ids.values())
    for kind, name, thread, start, end, *values in _columns(*(column[keep] for column in columns)):
        ranged = _make_range(_HOST[kind], texts[name], threads[thread], start, end)
        yield ranged | _keep_known(dict(zip(ids, values, strict=True)))


def _device(view: View) -> Iterator[Event]:
    device, texts = view.trace.device, _texts(view)
    talks = [*(dict(zip(_TALKS, each, strict=True)) for each in view.trace.collectives), dict[str, Any]()]
    numbers: dict[str, Any] = {
        "device": device.device,
        "stream": device.stream,
        "correlation": device.correlation,
        "bytes": device.bytes,
        "blocks per SM": device.blocks_per_sm,
        "est. achieved occupancy %": device.occupancy,
        "registers per thread": device.registers,
        "shared memory": device.shared_memory,
        "graph node id": device.graph,
    }
    columns = [
        getattr(device, name) for name in ("kind", "name", "start", "end", "collective", "grid", "block")
    ]
    for kind, name, start, end, talk, grid, block, *values in _columns(*columns, *numbers.values()):
        args = dict(zip(numbers, values, strict=True)) | talks[talk]
        for field, text in (("grid", texts[grid]), ("block", texts[block])):
            args |= {field: msgspec.Raw(text.encode())} if text else {}
        yield _make_range(_DEVICE[kind], texts[name], (values[0], values[1]), start, end) | _keep_known(args)


def _ranges(view: View) -> Iterator[Event]:
    ranges, texts = view.trace.device_ranges, _texts(view)
    columns = (ranges.name, ranges.device, ranges.stream, ranges.start, ranges.end)
    for name, pid, tid, start, end in _columns(*columns):
        ranged = _make_range("gpu_user_annotation", texts[name], (pid, tid), start, end)
        yield ranged | {"args": {"device": pid, "stream": tid}}


def _flows(view: View, threads: Ids) -> Iterator[Event]:
    """Arrows from launches to what they launched."""
    host, device = view.trace.host, view.trace.device
    rows = np.flatnonzero(view.links.launch >= 0)
    launch: Index = view.links.launch[rows]
    columns = (rows, host.thread[launch], device.device[rows], device.stream[rows])
    times = (host.start[launch], device.start[rows])
    for number, thread, gpu, stream, begin, end in _columns(*columns, *times):
        pid, tid = threads[thread]
        same = {"cat": "ac2g", "name": "ac2g", "id": number}
        yield {"ph": "s", **same, "pid": pid, "tid": tid, "ts": begin / 1000}
        yield {"ph": "f", "bp": "e", **same, "pid": gpu, "tid": stream, "ts": end / 1000}


def _utilisation(view: View) -> Iterator[Event]:
    """Share of each of `_BUCKETS` equal spans in which a kernel ran, per accelerator."""
    device = view.trace.device
    for gpu in np.unique(device.device).tolist():
        on_device = (device.device == gpu) & (device.kind == DeviceKind.KERNEL)
        busy = intervals.of(device, on_device)
        if not len(busy.start):
            continue
        first, last = int(busy.start[0]), int(busy.end[-1])
        edges = np.unique(np.linspace(first, last, _BUCKETS + 1).astype(np.int64))
        share = np.append(intervals.within(busy, edges[:-1], edges[1:]) / np.diff(edges) * 100, 0.0).round(1)
        moves = np.append(True, np.diff(share) != 0)
        values = [{"%": each} for each in share[moves].tolist()]
        yield from _counter(f"{device_type(view.trace)}:{gpu} utilisation", gpu, edges[moves], values)


def _queue(view: View) -> Iterator[Event]:
    """Work that was launched and has not begun, per accelerator."""
    host, device = view.trace.host, view.trace.device
    for gpu in np.unique(device.device).tolist():
        rows = np.flatnonzero((device.device == gpu) & (view.links.launch >= 0))
        launched = host.start[view.links.launch[rows]]
        at = np.concatenate([launched, np.maximum(device.start[rows], launched)])
        order = np.argsort(at, kind="stable")
        length = np.cumsum(np.repeat([1, -1], len(rows))[order])
        last = np.append(np.diff(at[order]) > 0, True) if len(at) else np.empty(0, bool)
        values = [{"launched": each} for each in length[last].tolist()]
        yield from _counter(f"{device_type(view.trace)}:{gpu} queue length", gpu, at[order][last], values)


def _memory(view: View, threads: Ids) -> Iterator[Event]:
    """Totals after each event, per device."""
    events = view.trace.memory
    kinds = np.stack([events.device_type.astype(np.int64), events.device.astype(np.int64)])
    for kind, index in np.unique(kinds, axis=1).T.tolist():
        mine = (kinds[0] == kind) & (kinds[1] == index) & (events.allocated != NONE)
        used = events.allocated[mine]
        free = np.where(events.reserved[mine] > 0, events.reserved[mine], used) - used
        values = [{"allocated": each, "reserved and free": rest} for each, rest in _columns(used, free)]
        pid = index if index >= 0 else threads[0][0] if threads else 0
        yield from _counter(f"{device_name(kind, index)} memory", pid, events.at[mine], values)


def _counter(name: str, pid: int, at: Ints, values: list[dict[str, Any]]) -> Iterator[Event]:
    for ns, args in zip(at.tolist(), values, strict=True):
        yield {"ph": "C", "name": name, "pid": pid, "tid": 0, "ts": ns / 1000, "args": args}
