"""A database of ROCm's profilers as columns: `rocprofv3 --sys-trace --output-format rocpd`, schema version 3.

Tables have the identity of their recording at the end of their names; views without it show all
recordings of a file.
Source: rocprofiler-sdk, source/share/rocprofiler-sdk-rocpd/rocpd_tables.sql. A dispatch belongs to the
call whose
event has the same `stack_id` (the profiler's internal correlation id).
Lies when: several machines are in one file: their clocks are taken for one."""

import re
from typing import Any

import numpy as np

from laptime.trace.columns import NONE, DeviceKind, HostKind, Ints
from laptime.trace.reading import sqlite
from laptime.trace.reading.assemble import Rows
from laptime.trace.reading.sqlite import Tables, locate, triples

_DISPATCH, _REGION, _COPY = "rocpd_kernel_dispatch", "rocpd_region", "rocpd_memory_copy"
_GRID = ("grid_size_x", "grid_size_y", "grid_size_z")
_BLOCK = ("workgroup_size_x", "workgroup_size_y", "workgroup_size_z")
_WAYS = {("CPU", "GPU"): "HtoD", ("GPU", "CPU"): "DtoH", ("GPU", "GPU"): "DtoD", ("CPU", "CPU"): "HtoH"}
_TWO_GPUS = re.compile(r"PEER|P2P", re.IGNORECASE)
_OWN = 1 << 40  # ids of the second recording of a file begin here, so that none is there twice


def is_own(names: set[str]) -> bool:
    """Whether these are tables of rocpd."""
    return any(name.startswith((_DISPATCH, _REGION)) for name in names)


def read(tables: Tables) -> tuple[Rows, dict[str, Any]]:
    """Rows of all recordings, and what the file says of the devices."""
    rows, devices = Rows(), list[dict[str, Any]]()
    suffixes = sorted(
        name.removeprefix("rocpd_string") for name in tables.names if name.startswith("rocpd_string")
    )
    own = [suffix for suffix in suffixes if suffix] or [""]
    for number, suffix in enumerate(own):
        devices += _Recording(tables, rows, suffix, number * _OWN).read()
    unique = {device["id"]: device for device in devices}
    return rows, {"deviceProperties": list(unique.values())}


class _Recording:
    """The tables of one recording."""

    def __init__(self, tables: Tables, rows: Rows, suffix: str, first: int) -> None:
        self._tables, self._rows, self._suffix, self._first = tables, rows, suffix, first
        self._texts: dict[int, str] = dict(self._get("rocpd_string", "id", "string"))
        events = self._get("rocpd_event", "id", "stack_id", "category_id")
        self._stacks = {event: stack + first for event, stack, _ in events if stack}
        self._categories = {event: self._texts.get(category, "") for event, _, category in events}
        agents = self._get("rocpd_info_agent", "id", "type", "logical_index", "product_name", "name")
        self._types = {agent[0]: agent[1] for agent in agents}
        self._numbers = {agent[0]: agent[0] if agent[2] is None else agent[2] for agent in agents}
        self._agents = [agent for agent in agents if agent[1] == "GPU"]
        processes = dict(self._get("rocpd_info_process", "id", "pid"))
        self._threads = {
            each: rows.thread(processes.get(pid, pid), tid, name if isinstance(name, str) else "")
            for each, pid, tid, name in self._get("rocpd_info_thread", "id", "pid", "tid", "name")
        }

    def read(self) -> list[dict[str, Any]]:
        """All rows; the properties of its GPUs."""
        self._regions()
        self._kernels()
        self._copies()
        return [{"id": self._numbers[agent[0]], "name": agent[3] or agent[4] or ""} for agent in self._agents]

    def _get(self, table: str, *wanted: str) -> list[tuple[Any, ...]]:
        return self._tables.rows(table + self._suffix, wanted)

    def _whole(self, table: str, *wanted: str) -> dict[str, Ints]:
        return self._tables.whole(table + self._suffix, wanted)

    def _regions(self) -> None:
        """Calls of HIP and HSA, and ranges that the program marked."""
        regions = self._whole(_REGION, "start", "end", "tid", "name_id", "event_id")
        if not len(regions["start"]):
            return
        marked = locate(
            regions["event_id"],
            {event: 1 for event, category in self._categories.items() if category.startswith("MARKER")},
        )
        calls = {name: column[marked != 1] for name, column in regions.items()}
        if len(calls["start"]):
            names = {number: self._texts.get(number, "") for number in np.unique(calls["name_id"]).tolist()}
            kinds = {
                number: HostKind.DRIVER if name.startswith("hsa_") else HostKind.RUNTIME
                for number, name in names.items()
            }
            self._rows.add(
                "host",
                start=calls["start"],
                end=calls["end"],
                thread=locate(calls["tid"], self._threads),
                correlation=locate(calls["event_id"], self._stacks),
                kind=locate(calls["name_id"], kinds),
                name=locate(calls["name_id"], {each: self._rows.text(text) for each, text in names.items()}),
            )
        own = (column[marked == 1].tolist() for column in regions.values())
        ranges = [sqlite.Mark(a, b, t, self._texts.get(n, "")) for a, b, t, n, _ in zip(*own, strict=True)]
        sqlite.add(self._rows, ranges, lambda found: locate(found, self._threads))

    def _kernels(self) -> None:
        wanted = ("start", "end", "agent_id", "kernel_id", "queue_id", "stream_id", "event_id",
                  "group_segment_size", *_GRID, *_BLOCK)  # fmt: skip
        kernels = self._whole(_DISPATCH, *wanted)
        if not len(kernels["start"]):
            return
        symbols = self._get(
            "rocpd_info_kernel_symbol", "id", "display_name", "kernel_name", "arch_vgpr_count"
        )
        names = {each: self._rows.text(shown or name or "") for each, shown, name, _ in symbols}
        registers = {each: count for each, _, _, count in symbols if isinstance(count, int)}
        # A grid is counted in threads here, and in blocks by CUDA and Kineto.
        blocks = {a: -(-kernels[a] // np.maximum(kernels[b], 1)) for a, b in zip(_GRID, _BLOCK, strict=True)}
        self._rows.add(
            "device",
            **self._on_device(kernels, DeviceKind.KERNEL, kernels["agent_id"]),
            name=locate(kernels["kernel_id"], names),
            registers=locate(kernels["kernel_id"], registers),
            shared_memory=kernels["group_segment_size"],
            grid=self._rows.texts(triples(blocks, _GRID)),
            block=self._rows.texts(triples(kernels, _BLOCK)),
        )

    def _copies(self) -> None:
        wanted = ("start", "end", "name_id", "src_agent_id", "dst_agent_id", "size", "queue_id", "stream_id")
        copies = self._whole(_COPY, *wanted, "event_id")
        if not len(copies["start"]):
            return
        source, target = copies["src_agent_id"], copies["dst_agent_id"]
        gpus = {agent: 1 for agent, kind in self._types.items() if kind == "GPU"}
        ends = zip(source.tolist(), target.tolist(), copies["name_id"].tolist(), strict=True)
        self._rows.add(
            "device",
            **self._on_device(copies, DeviceKind.MEMCPY, np.where(locate(target, gpus) == 1, target, source)),
            name=self._rows.texts(f"Memcpy {self._way(*end)}" for end in ends),
            bytes=copies["size"],
        )

    def _way(self, source: int, target: int, name: int) -> str:
        kinds = (self._types.get(source, ""), self._types.get(target, ""))
        if kinds == ("GPU", "GPU") and (source != target or _TWO_GPUS.search(self._texts.get(name, ""))):
            return "PtoP"
        return _WAYS.get(kinds, "")

    def _on_device(self, columns: dict[str, Ints], kind: DeviceKind, agents: Ints) -> dict[str, Any]:
        stream = columns["stream_id"]
        return {
            "start": columns["start"],
            "end": columns["end"],
            "kind": int(kind),
            "device": locate(agents, self._numbers),
            "stream": np.where(stream >= 0, stream, np.maximum(columns["queue_id"], 0)),
            "correlation": locate(columns["event_id"], self._stacks) if self._stacks else NONE,
        }
