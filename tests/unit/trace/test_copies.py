"""Copies by direction and memory. Times are microseconds in the events."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fixtures import traces
from laptime.records.tables import CopyRow
from laptime.trace import view
from laptime.trace.columns import Trace
from laptime.trace.reading import reader
from laptime.trace.tables import launches
from laptime.trace.view import View

Event = dict[str, Any]
UPLOAD = "Memcpy HtoD (Pageable -> Device)"


def seen(trace: Trace) -> View:
    linked = view.link(trace)
    return View(trace, linked, view.find_steps(trace, linked))


def found(*events: Event) -> list[CopyRow]:
    return launches.copies(seen(reader.parse(json.dumps({"traceEvents": list(events)}).encode())))


def on(name: str, start: float, end: float, cat: str = "cpu_op", **args: Any) -> Event:
    dur = end - start
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": start, "dur": dur, "args": args}


def call(start: float, end: float, id_: int, name: str = "cudaMemcpyAsync") -> Event:
    return on(name, start, end, "cuda_runtime", correlation=id_)


def gpu(
    name: str, start: float, end: float, id_: int = 0, cat: str = "gpu_memcpy", device: int = 0, **args: Any
) -> Event:
    event = on(name, start, end, cat, device=device, stream=7, correlation=id_, **args)
    return event | {"tid": 7}


def test_copies_of_one_direction_and_memory_are_one_row() -> None:
    rows = found(
        gpu(UPLOAD, 0, 10, bytes=1000),
        gpu(UPLOAD, 20, 50, bytes=3000),
        gpu("Memcpy HtoD (Pinned -> Device)", 60, 65, bytes=500),
        gpu("Memset (Device)", 70, 71, cat="gpu_memset", bytes=64),
    )
    assert [(row.id, row.calls, row.total_ns, row.bytes) for row in rows] == [
        ("HtoD pageable", 2, 40_000, 4000),
        ("HtoD pinned", 1, 5_000, 500),
        ("memset device", 1, 1_000, 64),
    ]
    assert rows[0].bandwidth == pytest.approx(4000 / 40e-6)


def test_bytes_that_one_copy_does_not_tell_are_unknown_and_bandwidth_is_of_the_others() -> None:
    (row,) = found(gpu(UPLOAD, 0, 10, bytes=1000), gpu(UPLOAD, 20, 50))
    assert row.bytes is None
    assert row.bandwidth == pytest.approx(1000 / 10e-6)


def test_names_of_rocm_tell_the_direction_only() -> None:
    (row,) = found(gpu("CopyDeviceToHost", 0, 10))
    assert (row.id, row.direction, row.memory) == ("DtoH", "DtoH", "")
    assert (row.bytes, row.bandwidth) == (None, None)


def test_a_copy_is_exposed_while_no_kernel_runs_on_its_device() -> None:
    (row,) = found(
        gpu(UPLOAD, 0, 100),
        gpu("k", 20, 50, cat="kernel"),
        gpu("k", 40, 60, cat="kernel"),
        gpu("k", 0, 100, cat="kernel", device=1),
    )
    assert row.exposed_ns == 60_000


def test_copies_are_named_after_what_the_program_called() -> None:
    (row,) = found(
        on("aten::to", 0, 40, **{"Call stack": "train.py(7): main"}),
        on("aten::copy_", 1, 39),
        call(2, 5, 1),
        gpu(UPLOAD, 10, 30, 1),
        call(60, 62, 2),
        gpu(UPLOAD, 65, 70, 2),
    )
    assert row.operators == [("aten::to", 20_000), ("cudaMemcpyAsync", 5_000)]
    assert row.stack == ["train.py(7): main"]
    assert row.blocking == ""


def test_a_copy_that_is_followed_by_a_synchronisation_in_its_operator_was_waited_for() -> None:
    waited = [
        on("aten::to", 0, 40),
        call(2, 5, 1),
        gpu("Memcpy DtoH (Device -> Pinned)", 10, 30, 1),
        call(6, 32, 0, "cudaStreamSynchronize"),
    ]
    free = [on("aten::to", 50, 60), call(52, 55, 2), gpu("Memcpy DtoH (Device -> Pinned)", 60, 80, 2)]
    assert found(*waited)[0].blocking == "all"
    assert found(*waited, *free)[0].blocking == "some"
    assert found(*free)[0].blocking == ""


def test_a_trace_without_copies_has_no_rows() -> None:
    assert found(gpu("k", 0, 10, cat="kernel"), on("aten::mm", 0, 5)) == []


def test_real_batches_come_out_of_pageable_memory() -> None:
    rows = launches.copies(seen(reader.read(traces.path("resnet50_num_workers_0.json.gz"))))
    batch = rows[0]
    assert (batch.id, batch.calls, batch.blocking) == ("HtoD pageable", 12, "all")
    assert batch.total_ns == batch.exposed_ns == 11_492_000  # independent_exact: memcpy_union_us
    assert batch.bytes == 6 * (32 * 3 * 224 * 224 * 4 + 32 * 8)  # images in float32, labels in int64
    assert batch.bandwidth == pytest.approx(10.06e9, rel=0.001)
    assert rows[1].total_ns == 534_000  # memset_union_us
