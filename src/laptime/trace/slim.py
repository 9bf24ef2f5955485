"""A small copy of a trace that ui.perfetto.dev (and laptime) opens: what ran when, and who launched it.

Left out: stacks, shapes, Python functions but those that load data, and single memory events. Added: counter
tracks of utilisation, queue length and memory. Times are exact: microseconds with three decimals since
`baseTimeNanoseconds`.
"""

from __future__ import annotations

import gzip
import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np

from laptime.trace import intervals, phases
from laptime.trace.columns import NONE, DeviceKind, HostKind, Index, Ints, Thread
from laptime.trace.tables.memory import device_name
from laptime.trace.tables.timeline import device_type
from laptime.trace.view import View

_HOST = {
    HostKind.OPERATOR: "cpu_op", HostKind.ANNOTATION: "user_annotation", HostKind.RUNTIME: "cuda_runtime",
    HostKind.DRIVER: "cuda_driver", HostKind.PYTHON: "python_function",
}  # fmt: skip
_DEVICE = {DeviceKind.KERNEL: "kernel", DeviceKind.MEMCPY: "gpu_memcpy", DeviceKind.MEMSET: "gpu_memset"}
_BUCKETS = 1000
_BATCH = 10_000
_FIRST_ID = 1 << 30
"""Ids of threads whose own is no number."""


def write(view: View, path: Path) -> None:
    """Write the slimmed trace, gzipped when the path ends in .gz.

    Raises:
        OSError: it cannot be written.
    """
    with _open(path) as file:
        file.write(json.dumps(_head(view)).removesuffix("}").encode())
        file.write(b', "traceEvents": [\n')
        events, comma = _events(view), ""
        while batch := ",\n".join(itertools.islice(events, _BATCH)):
            file.write((comma + batch).encode())
            comma = ",\n"
        file.write(b"\n]}\n")


@contextmanager
def _open(path: Path) -> Iterator[BinaryIO]:
    """Open the file for writing. A gzip archive holds no name and no time, so the same events give the
    same bytes."""
    with path.open("wb") as raw:
        if path.suffix == ".gz":
            with gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=raw, mtime=0) as packed:
                yield cast(BinaryIO, packed)
        else:
            yield raw


def _head(view: View) -> dict[str, Any]:
    trace = view.trace
    properties = [
        {
            "id": each.id,
            "name": each.name,
            "totalGlobalMem": each.memory,
            "computeMajor": each.capability[0],
            "computeMinor": each.capability[1],
            "numSms": each.sms,
            "maxThreadsPerMultiprocessor": each.threads_per_sm,
        }
        for each in trace.accelerators
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


def _events(view: View) -> Iterator[str]:
    names = [json.dumps(text) for text in [*view.trace.texts, ""]]  # the last is for -1
    threads = [_ids(index, each) for index, each in enumerate(view.trace.threads)]
    yield from _titles(view, threads)
    yield from _host(view, names, threads)
    yield from _device(view, names)
    yield from _ranges(view, names)
    yield from _flows(view, threads)
    yield from _utilisation(view)
    yield from _queue(view)
    yield from _memory(view, threads)


def _ids(index: int, thread: Thread) -> tuple[int, int]:
    """Process and thread as numbers, which is what Perfetto wants."""
    pid, tid = (int(text) if _is_number(text) else None for text in (thread.pid, thread.tid))
    return _FIRST_ID if pid is None else pid, _FIRST_ID + index if tid is None else tid


def _is_number(text: str) -> bool:
    return text.removeprefix("-").isdecimal() and text.isascii()


def _titles(view: View, threads: list[tuple[int, int]]) -> Iterator[str]:
    trace = view.trace
    for process in sorted({pid for pid, _ in threads}):
        yield _title("process_name", process, 0, "CPU")
    for (pid, tid), thread in zip(threads, trace.threads, strict=True):
        if thread.name or str(tid) != thread.tid:
            yield _title("thread_name", pid, tid, thread.name or f"thread {thread.tid}")
    kind = device_type(trace)
    streams = np.unique(np.stack([trace.device.device.astype(np.int64), trace.device.stream]), axis=1)
    for device in np.unique(streams[0]).tolist():
        yield _title("process_name", device, 0, f"{kind}:{device}")
    for device, stream in streams.T.tolist():
        yield _title("thread_name", device, stream, f"stream {stream}")


def _title(kind: str, pid: int, tid: int, name: str) -> str:
    return f'{{"ph":"M","name":"{kind}","pid":{pid},"tid":{tid},"ts":0,"args":{{"name":{json.dumps(name)}}}}}'


def _host(view: View, names: list[str], threads: list[tuple[int, int]]) -> Iterator[str]:
    host = view.trace.host
    keep = np.isin(host.kind, list(_HOST)) & ((host.kind != HostKind.PYTHON) | phases.loading(view))
    rows = np.flatnonzero(keep)
    args = _args(
        correlation=_or_empty(host.correlation[rows]),
        **{
            "Sequence number": _or_empty(host.sequence[rows]),
            "Fwd thread id": _or_empty(host.forward_thread[rows]),
        },
    )
    columns = (host.kind[rows], host.name[rows], host.thread[rows])
    times = (_us(host.start[rows]), _us((host.end - host.start)[rows]))
    for kind, name, thread, ts, dur, more in zip(
        *(each.tolist() for each in columns), *times, args, strict=True
    ):
        pid, tid = threads[thread]
        yield _range(_HOST[kind], names[name], pid, tid, ts, dur, more)


def _device(view: View, names: list[str]) -> Iterator[str]:
    trace, device = view.trace, view.trace.device
    grid, block = (
        [trace.texts[i] if i >= 0 else "" for i in each.tolist()] for each in (device.grid, device.block)
    )
    args = _args(
        device=_or_empty(device.device),
        stream=_or_empty(device.stream),
        correlation=_or_empty(device.correlation),
        grid=grid,
        block=block,
        bytes=_or_empty(device.bytes),
        **{
            "blocks per SM": _finite(device.blocks_per_sm.tolist()),
            "est. achieved occupancy %": _finite(device.occupancy.tolist()),
            "registers per thread": _or_empty(device.registers),
            "shared memory": _or_empty(device.shared_memory),
            "graph node id": _or_empty(device.graph),
        },
    )
    collective_args = [_collective(each) for each in trace.collectives]
    columns = (device.kind, device.name, device.device, device.stream, device.collective)
    times = (_us(device.start), _us(device.end - device.start))
    for kind, name, pid, tid, talks, ts, dur, more in zip(
        *(each.tolist() for each in columns), *times, args, strict=True
    ):
        text = f"{more[:-1]},{collective_args[talks]}}}" if talks >= 0 else more
        yield _range(_DEVICE[kind], names[name], pid, tid, ts, dur, text)


def _range(category: str, name: str, pid: int, tid: int, ts: str, dur: str, args: str) -> str:
    place = f'"pid":{pid},"tid":{tid},"ts":{ts},"dur":{dur}'
    return f'{{"ph":"X","cat":"{category}","name":{name},{place}{args}}}'


def _collective(collective: Any) -> str:
    written = {
        "Collective name": collective.name,
        "In msg nelems": collective.elements_in,
        "Out msg nelems": collective.elements_out,
        "dtype": collective.dtype,
        "Process Group Name": collective.group,
        "Group size": collective.group_size,
        "Seq": collective.sequence,
    }
    return json.dumps(written).strip("{}")


def _ranges(view: View, names: list[str]) -> Iterator[str]:
    ranges = view.trace.device_ranges
    columns = (ranges.name, ranges.device, ranges.stream)
    times = (_us(ranges.start), _us(ranges.end - ranges.start))
    for name, pid, tid, ts, dur in zip(*(each.tolist() for each in columns), *times, strict=True):
        args = f',"args":{{"device":{pid},"stream":{tid}}}'
        yield _range("gpu_user_annotation", names[name], pid, tid, ts, dur, args)


def _flows(view: View, threads: list[tuple[int, int]]) -> Iterator[str]:
    """Arrows from launches to what they launched."""
    host, device = view.trace.host, view.trace.device
    rows = np.flatnonzero(view.links.launch >= 0)
    launch: Index = view.links.launch[rows]
    columns = (rows, host.thread[launch], device.device[rows], device.stream[rows])
    times = (_us(host.start[launch]), _us(device.start[rows]))
    for number, thread, gpu, stream, begin, end in zip(
        *(each.tolist() for each in columns), *times, strict=True
    ):
        pid, tid = threads[thread]
        same = f'"cat":"ac2g","name":"ac2g","id":{number}'
        yield f'{{"ph":"s",{same},"pid":{pid},"tid":{tid},"ts":{begin}}}'
        yield f'{{"ph":"f","bp":"e",{same},"pid":{gpu},"tid":{stream},"ts":{end}}}'


def _utilisation(view: View) -> Iterator[str]:
    """Share of each of `_BUCKETS` equal spans in which a kernel ran, per accelerator."""
    device = view.trace.device
    for gpu in np.unique(device.device).tolist():
        on_device = (device.device == gpu) & (device.kind == DeviceKind.KERNEL)
        busy = intervals.union(device.start[on_device], device.end[on_device])
        if not len(busy.start):
            continue
        first, last = int(busy.start[0]), int(busy.end[-1])
        edges = np.unique(np.linspace(first, last, _BUCKETS + 1).astype(np.int64))
        share = intervals.within(busy, edges[:-1], edges[1:]) / np.diff(edges) * 100
        values = [f'{{"%":{each:.1f}}}' for each in [*share.tolist(), 0.0]]
        moves = np.array([before != after for before, after in itertools.pairwise(["", *values])])
        edges, values = edges[moves], list(itertools.compress(values, moves))
        yield from _counter(f"{device_type(view.trace)}:{gpu} utilisation", gpu, edges, values)


def _queue(view: View) -> Iterator[str]:
    """Work that was launched and has not begun, per accelerator."""
    host, device = view.trace.host, view.trace.device
    for gpu in np.unique(device.device).tolist():
        rows = np.flatnonzero((device.device == gpu) & (view.links.launch >= 0))
        launched = host.start[view.links.launch[rows]]
        at = np.concatenate([launched, np.maximum(device.start[rows], launched)])
        order = np.argsort(at, kind="stable")
        length = np.cumsum(np.repeat([1, -1], len(rows))[order])
        last = np.append(np.diff(at[order]) > 0, True) if len(at) else np.empty(0, bool)
        values = [f'{{"launched":{each}}}' for each in length[last].tolist()]
        yield from _counter(f"{device_type(view.trace)}:{gpu} queue length", gpu, at[order][last], values)


def _memory(view: View, threads: list[tuple[int, int]]) -> Iterator[str]:
    """Totals after each event, per device."""
    events = view.trace.memory
    kinds = np.stack([events.device_type.astype(np.int64), events.device.astype(np.int64)])
    for kind, index in np.unique(kinds, axis=1).T.tolist():
        mine = (kinds[0] == kind) & (kinds[1] == index) & (events.allocated != NONE)
        reserved = np.where(events.reserved[mine] > 0, events.reserved[mine], events.allocated[mine])
        unused = (reserved - events.allocated[mine]).tolist()
        values = [
            f'{{"allocated":{used},"reserved and free":{free}}}'
            for used, free in zip(events.allocated[mine].tolist(), unused, strict=True)
        ]
        pid = index if index >= 0 else threads[0][0] if threads else 0
        yield from _counter(f"{device_name(kind, index)} memory", pid, events.at[mine], values)


def _counter(name: str, pid: int, at: Ints, values: list[str]) -> Iterator[str]:
    for ts, value in zip(_us(at), values, strict=True):
        yield f'{{"ph":"C","name":"{name}","pid":{pid},"tid":0,"ts":{ts},"args":{value}}}'


def _us(ns: Ints) -> list[str]:
    """Microseconds with three decimals."""
    return [f"{each // 1000}.{each % 1000:03d}" for each in ns.tolist()]


def _or_empty(values: Ints | Index) -> list[str]:
    return ["" if each < 0 else str(each) for each in values.tolist()]


def _finite(values: list[float]) -> list[str]:
    return ["" if each != each else repr(each) for each in values]


def _args(**columns: list[str]) -> list[str]:
    """`,"args":{...}` of each row, without what is unknown; "" when nothing is known."""
    parts = [
        [f',"{name}":{value}' if value else "" for value in values]
        for name, values in columns.items()
        if any(values)
    ]
    texts = map("".join, zip(*parts, strict=True)) if parts else [""] * len(next(iter(columns.values())))
    return [f',"args":{{{text[1:]}}}' if text else "" for text in texts]
