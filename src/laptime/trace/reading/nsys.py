"""An export of Nsight Systems as columns: `nsys export --type sqlite report.nsys-rep`.

Source: "SQLite Schema Reference" and "Common SQLite Examples" of the Nsight Systems documentation.
Lies when: ranges that are pushed on one thread and popped on another are not in it; a process id that comes
back is one process."""

import re
from typing import Any

import numpy as np

from laptime.trace.columns import NONE, DeviceKind, HostKind, Ints
from laptime.trace.reading import sqlite
from laptime.trace.reading.assemble import Rows
from laptime.trace.reading.sqlite import Tables, locate, triples

KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
CALLS = "CUPTI_ACTIVITY_KIND_RUNTIME"
_RANGES = (59, 60)  # Push-pop and start-end ranges of NVTX; others are marks, domains and categories
_VERSION = re.compile(r"_v\d+(_ptsz|_ptds)?$")
_DIRECTIONS = {1: "HtoD", 2: "DtoH", 8: "DtoD", 10: "PtoP"}
_MEMORY = {0: "Pageable", 1: "Pinned", 2: "Device", 3: "Array", 4: "Managed"}
_GRID, _BLOCK = ("gridX", "gridY", "gridZ"), ("blockX", "blockY", "blockZ")
_ON_DEVICE = ("start", "end", "deviceId", "streamId", "correlationId", "globalPid", "graphNodeId")
_THREAD = 24  # bits of the thread within a global thread id; above them is the process


def is_own(names: set[str]) -> bool:
    """Whether these are tables of Nsight Systems."""
    return "StringIds" in names and bool({KERNELS, CALLS, "NVTX_EVENTS", "META_DATA_EXPORT"} & names)


def diagnostics(tables: Tables) -> list[str]:
    """List the faults that Nsight Systems itself reports, most severe first."""
    said = tables.rows("DIAGNOSTIC_EVENT", ("severity", "text"))
    texts = [
        text for level, text in sorted(said, key=lambda row: -(row[0] or 0)) if text and (level or 0) >= 2
    ]
    return [f"Nsight Systems says: {text.rstrip('.')}" for text in dict.fromkeys(texts)][:3]


def read(tables: Tables) -> tuple[Rows, dict[str, Any]]:
    """Rows of all tables, and what the file says of the devices."""
    rows = Rows()
    texts = {number: text for number, text in tables.rows("StringIds", ("id", "value")) if text}
    for thread, name in tables.rows("ThreadNames", ("globalTid", "nameId")):
        if isinstance(thread, int):
            rows.thread(*_split(thread), texts.get(name, ""))
    _calls(tables, rows, texts, shared="globalPid" in tables.columns(KERNELS))
    # Ranges of NVTX; steps and operators among them are what PyTorch's profiler calls them.
    wanted = ("start", "end", "eventType", "globalTid", "endGlobalTid", "text", "textId")
    ranges = [
        sqlite.Mark(start, end, thread, text or texts.get(number, ""))
        for start, end, kind, thread, end_thread, text, number in tables.rows("NVTX_EVENTS", wanted)
        if isinstance(start, int) and isinstance(end, int) and isinstance(thread, int)
        and kind in (*_RANGES, None) and end >= start and end_thread in (None, 0, thread)
    ]  # fmt: skip
    sqlite.add(rows, ranges, lambda found: _threads(rows, found))
    # The GPUs as Kineto's deviceProperties say it.
    properties = ("id", "name", "totalMemory", "computeMajor", "computeMinor", "smCount")
    names = ("id", "name", "totalGlobalMem", "computeMajor", "computeMinor", "numSms")
    devices = [dict(zip(names, row, strict=True)) for row in tables.rows("TARGET_INFO_GPU", properties)]
    _kernels(tables, rows, texts, {device["id"]: device["numSms"] or 0 for device in devices})
    # Copies and memsets under the names that Kineto gives them.
    columns = (*_ON_DEVICE, "bytes", "copyKind", "srcKind", "dstKind")
    copies = tables.whole("CUPTI_ACTIVITY_KIND_MEMCPY", columns)
    sets = tables.whole("CUPTI_ACTIVITY_KIND_MEMSET", (*_ON_DEVICE, "bytes", "memKind"))
    if len(copies["start"]):
        kinds = zip(*(copies[name].tolist() for name in ("copyKind", "srcKind", "dstKind")), strict=True)
        named = rows.texts(
            f"Memcpy {_DIRECTIONS.get(way, '')} ({_MEMORY.get(source, '')} -> {_MEMORY.get(target, '')})"
            for way, source, target in kinds
        )
        rows.add("device", **_on_device(copies, DeviceKind.MEMCPY), name=named, bytes=copies["bytes"])
    if len(sets["start"]):
        named = rows.texts(f"Memset ({_MEMORY.get(kind, '')})" for kind in sets["memKind"].tolist())
        rows.add("device", **_on_device(sets, DeviceKind.MEMSET), name=named, bytes=sets["bytes"])
    return rows, {"deviceProperties": devices}


def _calls(tables: Tables, rows: Rows, texts: dict[int, str], *, shared: bool) -> None:
    """Calls of the runtime and of the driver; both are in one table. `shared`: kernels tell their process."""
    calls = tables.whole(CALLS, ("start", "end", "globalTid", "correlationId", "nameId"))
    if not len(calls["start"]):
        return
    known = {
        number: _VERSION.sub("", texts.get(number, "")) for number in np.unique(calls["nameId"]).tolist()
    }
    kinds = {
        number: HostKind.RUNTIME if name.startswith("cuda") else HostKind.DRIVER
        for number, name in known.items()
    }
    rows.add(
        "host",
        start=calls["start"],
        end=calls["end"],
        name=locate(calls["nameId"], {number: rows.text(name) for number, name in known.items()}),
        kind=locate(calls["nameId"], kinds),
        thread=_threads(rows, calls["globalTid"]),
        correlation=_correlation(calls["correlationId"], calls["globalTid"] if shared else np.full(1, NONE)),
    )


def _kernels(tables: Tables, rows: Rows, texts: dict[int, str], sms: dict[int, int]) -> None:
    wanted = (*_ON_DEVICE, *_GRID, *_BLOCK, "demangledName", "shortName", "registersPerThread",
              "staticSharedMemory", "dynamicSharedMemory")  # fmt: skip
    kernels = tables.whole(KERNELS, wanted)
    if not len(kernels["start"]):
        return
    name = np.where(kernels["demangledName"] >= 0, kernels["demangledName"], kernels["shortName"])
    shared = np.maximum(kernels["staticSharedMemory"], 0) + np.maximum(kernels["dynamicSharedMemory"], 0)
    launched = kernels["gridX"] > 0
    blocks = np.where(launched, np.prod([np.maximum(kernels[axis], 1) for axis in _GRID], axis=0), 0)
    multiprocessors = np.maximum(locate(kernels["deviceId"], sms), 0)
    rows.add(
        "device",
        **_on_device(kernels, DeviceKind.KERNEL),
        name=locate(name, {number: rows.text(texts.get(number, "")) for number in np.unique(name).tolist()}),
        grid=np.where(launched, rows.texts(triples(kernels, _GRID)), NONE),
        block=np.where(launched, rows.texts(triples(kernels, _BLOCK)), NONE),
        registers=kernels["registersPerThread"],
        shared_memory=np.where(kernels["staticSharedMemory"] >= 0, shared, NONE),
        blocks_per_sm=np.divide(
            blocks,
            multiprocessors,
            out=np.full(len(blocks), np.nan),
            where=(multiprocessors > 0) & (blocks > 0),
        ),
    )


def _on_device(columns: dict[str, Ints], kind: DeviceKind) -> dict[str, Any]:
    """Return the columns that every activity has."""
    return {
        "start": columns["start"],
        "end": columns["end"],
        "kind": int(kind),
        "device": columns["deviceId"],
        "stream": columns["streamId"],
        "correlation": _correlation(columns["correlationId"], columns["globalPid"]),
        "graph": np.where(columns["graphNodeId"] > 0, columns["graphNodeId"], NONE),
    }


def _correlation(numbers: Ints, owners: Ints) -> Ints:
    """Correlation ids with the process before them: two processes of one file use the same ones."""
    process = np.where(owners >= 0, owners >> _THREAD & 0xFFFFFF, 0)
    return np.where(numbers > 0, numbers + (process << 36), NONE)


def _threads(rows: Rows, numbers: Ints) -> Ints:
    return locate(numbers, {each: rows.thread(*_split(each)) for each in np.unique(numbers).tolist()})


def _split(thread: int) -> tuple[int, int]:
    """Process and thread of a global thread id."""
    return thread >> _THREAD & 0xFFFFFF, thread & 0xFFFFFF
