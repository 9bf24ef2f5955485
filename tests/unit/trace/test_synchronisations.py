"""Calls that made the host wait. Times are microseconds in the events."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fixtures import traces
from laptime.trace import host_time
from laptime.trace.columns import Trace
from laptime.trace.reading import reader
from laptime.trace.tables import overview
from laptime.trace.view import View, find_steps, link

Event = dict[str, Any]


def seen(trace: Trace) -> View:
    linked = link(trace)
    return View(trace, linked, find_steps(trace, linked))


def view(*events: Event) -> View:
    return seen(reader.parse(json.dumps({"traceEvents": [on("ProfilerStep#1", 0, 900), *events]}).encode()))


def on(name: str, start: float, end: float, cat: str = "cpu_op", **args: Any) -> Event:
    dur = end - start
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": start, "dur": dur, "args": args}


def call(name: str, start: float, end: float, id_: int = 0, cat: str = "cuda_runtime") -> Event:
    return on(name, start, end, cat, correlation=id_)


def copy(name: str, start: float, end: float, id_: int) -> Event:
    args = {"device": 0, "stream": 7, "correlation": id_}
    event = on(name, start, end, "gpu_memcpy", **args)
    return event | {"tid": 7}


def waited(*events: Event) -> list[tuple[str, str, int, int]]:
    return [(row.call, row.operator, row.calls, row.wait_ns) for row in overview.find(view(*events))]


def test_a_synchronisation_is_named_after_the_operator_that_the_program_called() -> None:
    found = overview.find(
        view(
            on("aten::item", 10, 60, **{"Call stack": "train.py(3): main"}),
            on("aten::_local_scalar_dense", 11, 60),
            call("cudaStreamSynchronize", 20, 60),
            on("aten::item", 100, 110),
            on("aten::_local_scalar_dense", 100, 110),
            call("cudaStreamSynchronize", 101, 110),
        )
    )
    (row,) = found
    assert (row.call, row.operator) == ("cudaStreamSynchronize", "aten::item")
    assert (row.calls, row.wait_ns) == (2, 49_000)
    assert row.stack == ["train.py(3): main"]


def test_autograd_functions_are_not_what_an_aten_operator_is_named_after() -> None:
    found = waited(
        on("MaskedFillBackward0", 0, 100),
        on("aten::index", 10, 60),
        on("aten::nonzero", 10, 50),
        call("cudaStreamSynchronize", 20, 40),
    )
    assert found == [("cudaStreamSynchronize", "aten::index", 1, 20_000)]


def test_a_synchronisation_outside_of_operators_has_none() -> None:
    assert waited(call("hipDeviceSynchronize", 10, 30)) == [("hipDeviceSynchronize", "", 1, 20_000)]


@pytest.mark.parametrize(
    "name", ["cudaLaunchKernel", "cudaStreamWaitEvent", "cudaEventQuery", "cudaEventRecord", "hipGraphLaunch"]
)
def test_calls_that_return_at_once_are_no_waits(name: str) -> None:
    assert waited(call(name, 10, 30)) == []


@pytest.mark.parametrize(
    "name",
    [
        "cudaDeviceSynchronize", "cudaEventSynchronize", "cuStreamSynchronize", "hipStreamSynchronize",
        "cudaFree", "cudaMemcpy", "hipMemcpyWithStream", "cuMemcpyDtoH_v2",
    ],
)  # fmt: skip
def test_calls_that_wait_whatever_they_do(name: str) -> None:
    assert waited(call(name, 10, 30)) == [(name, "", 1, 20_000)]


def test_an_asynchronous_copy_waits_if_its_memory_is_pageable() -> None:
    found = waited(
        call("cudaMemcpyAsync", 10, 40, 1),
        copy("Memcpy DtoH (Device -> Pageable)", 20, 38, 1),
        call("cudaMemcpyAsync", 50, 60, 2),
        copy("Memcpy DtoH (Device -> Pinned)", 52, 58, 2),
    )
    assert found == [("cudaMemcpyAsync DtoH to pageable memory", "", 1, 30_000)]


def test_a_copy_out_of_pageable_memory_waits_if_it_returned_after_the_copy_began() -> None:
    found = waited(
        call("cudaMemcpyAsync", 10, 40, 1),
        copy("Memcpy HtoD (Pageable -> Device)", 30, 50, 1),
        call("cudaMemcpyAsync", 50, 60, 2),
        copy("Memcpy HtoD (Pageable -> Device)", 70, 80, 2),
    )
    assert found == [("cudaMemcpyAsync HtoD from pageable memory", "", 1, 30_000)]


def test_where_names_do_not_tell_the_memory_times_tell_of_copies_to_the_host() -> None:
    found = waited(
        call("hipMemcpyAsync", 10, 40, 1),
        copy("CopyDeviceToHost", 20, 38, 1),
        call("hipMemcpyAsync", 50, 60, 2),
        copy("CopyDeviceToHost", 62, 70, 2),
    )
    assert [(calls, wait) for _, _, calls, wait in found] == [(1, 30_000)]


def test_a_driver_call_inside_a_runtime_call_is_the_same_wait() -> None:
    found = waited(
        call("cudaStreamSynchronize", 10, 40), call("cuStreamSynchronize", 12, 38, cat="cuda_driver")
    )
    assert found == [("cudaStreamSynchronize", "", 1, 30_000)]


def test_copies_within_the_device_never_wait() -> None:
    assert waited(call("cudaMemcpy", 10, 40, 1), copy("Memcpy DtoD (Device -> Device)", 20, 38, 1)) == []


def test_the_profilers_own_wait_after_the_last_step_does_not_count() -> None:
    assert waited(call("cudaDeviceSynchronize", 901, 950)) == []


@pytest.mark.parametrize(
    ("name", "direction", "memory"),
    [
        ("Memcpy HtoD (Pageable -> Device)", "HtoD", "pageable"),
        ("Memcpy HtoD (Pinned -> Device)", "HtoD", "pinned"),
        ("Memcpy DtoH (Device -> Pinned)", "DtoH", "pinned"),
        ("Memcpy DtoD (Device -> Device)", "DtoD", "device"),
        ("Memcpy PtoP (Device -> Device)", "PtoP", "device"),
        ("CopyHostToDevice", "HtoD", ""),
        ("Memcpy HtoD (Host -> Device)", "HtoD", ""),
        ("Memset (Device)", "", "device"),
        ("something", "", ""),
    ],
)
def test_names_of_copies(name: str, direction: str, memory: str) -> None:
    assert (host_time.direction(name), host_time.memory(name)) == (direction, memory)


def test_a_batch_moved_from_pageable_memory_waits_in_the_real_trace() -> None:
    rows = overview.find(seen(reader.read(traces.path("resnet50_num_workers_0.json.gz"))))
    assert [(row.call, row.operator, row.calls) for row in rows] == [
        ("cudaMemcpyAsync HtoD from pageable memory", "aten::to", 6),
        ("cudaStreamSynchronize", "aten::to", 12),
    ]
    assert rows[0].stack == ["resnet50_profiler_api.py(44): <module>"]
