from __future__ import annotations

import json
from typing import Any

import pytest

from laptime.records.tables import KernelRow
from laptime.trace.reading import reader
from laptime.trace.tables import kernels
from laptime.trace.view import View, find_steps, link


def event(cat: str, name: str, ts: float, dur: float, /, tid: int = 1, **args: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "pid": 7, "tid": tid, "ts": ts, "dur": dur, "args": args}


def kernel(name: str, ts: float, dur: float, correlation: int | None = None, **args: Any) -> dict[str, Any]:
    named = {key.replace("_", " "): value for key, value in args.items()}
    if correlation is not None:
        named["correlation"] = correlation
    return event("kernel", name, ts, dur, 9, device=0, stream=7, **named)


def called(name: str, ts: float, correlation: int, by: str = "cudaLaunchKernel") -> list[dict[str, Any]]:
    """An operator and the launch in it."""
    return [event("cpu_op", name, ts, 9), event("cuda_runtime", by, ts + 1, 2, correlation=correlation)]


def view_of(*events: dict[str, Any]) -> View:
    trace = reader.parse(json.dumps(list(events)).encode())
    linked = link(trace)
    return View(trace, linked, find_steps(trace, linked))


def by_name(*events: dict[str, Any]) -> dict[str, KernelRow]:
    return {row.name: row for row in kernels.kernels(view_of(*events))}


def test_kernels_of_one_name_are_counted_summed_and_averaged_by_duration() -> None:
    rate = "est. achieved occupancy %"
    found = by_name(
        kernel("k", 0, 10, blocks_per_SM=2.0, **{rate: 50}),
        kernel("k", 20, 30, blocks_per_SM=4.0, **{rate: 100}),
        kernel("k", 60, 2),
        kernel("rare", 90, 1),
    )
    k = found["k"]
    assert (k.calls, k.total_ns, k.mean_ns, k.min_ns, k.max_ns) == (3, 42_000, 14_000, 2_000, 30_000)
    assert (k.blocks_per_sm, k.occupancy) == pytest.approx((3.5, 0.875))  # the third says nothing
    assert (found["rare"].blocks_per_sm, found["rare"].occupancy) == (None, None)
    assert list(found) == ["k", "rare"]


def test_a_kernel_without_duration_still_has_its_mean() -> None:
    assert by_name(kernel("k", 1, 0, blocks_per_SM=2.0))["k"].blocks_per_sm == 2.0


def test_copies_are_no_kernels() -> None:
    copy = event("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 0, 5, 9, device=0, stream=7)
    assert by_name(copy) == {}


def test_what_has_no_operator_is_replayed_by_a_graph_or_has_no_launch_at_all() -> None:
    found = by_name(
        *called("aten::mm", 0, 1),
        *called("mine", 20, 2, by="cudaGraphLaunch"),
        event("cuda_runtime", "cudaGraphLaunch", 40, 5, correlation=3),
        event("cuda_runtime", "hipGraphLaunch", 46, 3, correlation=6),
        event("cuda_runtime", "cudaLaunchKernel", 50, 5, correlation=4),
        kernel("launched", 100, 1, 1),
        kernel("replayed in an operator", 110, 1, 2),
        kernel("replayed", 120, 1, 3),
        kernel("ncclKernel_replayed", 121, 1, 6),
        kernel("bare", 130, 1, 4),
        kernel("ncclDevKernel_AllReduce", 140, 1, 4),
        kernel("orphan", 150, 1, 5),
        kernel("node of a graph", 160, 1, graph_node_id=12),
    )
    assert {name: row.group for name, row in found.items()} == {
        "launched": "compute",
        "replayed in an operator": "compute",
        "replayed": "graph",
        "ncclKernel_replayed": "graph",
        "bare": "compute",
        "ncclDevKernel_AllReduce": "communication",
        "orphan": "unlaunched",
        "node of a graph": "graph",
    }


def test_rows_by_launch_tell_operators_and_configurations_apart() -> None:
    one = {"grid": [2, 1, 1], "block": [64, 1, 1], "registers_per_thread": 16, "shared_memory": 0}
    events = [
        *called("aten::mm", 0, 1),
        *called("aten::mm", 20, 2),
        *called("aten::mm", 40, 3),
        *called("aten::add", 60, 4),
        kernel("k", 100, 10, 1, **one),
        kernel("k", 120, 20, 2, **one),
        kernel("k", 140, 5, 3, **{**one, "block": [128, 1, 1]}),
        kernel("k", 160, 4, 4, **one),
        kernel("k", 180, 3, 5),
    ]
    rows = kernels.kernels_by_launch(view_of(*events))
    assert [(row.operator, row.block, row.registers, row.shared_memory, row.calls) for row in rows] == [
        ("aten::mm", "[64, 1, 1]", 16, 0, 2),
        ("aten::mm", "[128, 1, 1]", 16, 0, 1),
        ("aten::add", "[64, 1, 1]", 16, 0, 1),
        ("", "", None, None, 1),
    ]
    assert [row.operator_eligible for row in rows] == [True, True, False, False]
    assert [row.group for row in rows] == ["compute", "compute", "compute", "unlaunched"]
    assert len({row.id for row in rows}) == 4
    assert {row.grid for row in rows} == {"[2, 1, 1]", ""}


def test_tensor_cores_are_told_by_the_name() -> None:
    found = by_name(kernel("sm90_xmma_gemm_bf16", 0, 2), kernel("vectorized_elementwise_kernel", 5, 1))
    assert [row.tensor_cores for row in found.values()] == [True, False]


def test_a_trace_without_kernels_has_no_rows() -> None:
    view = view_of(event("cpu_op", "aten::mm", 0, 5))
    assert kernels.kernels(view) == []
    assert kernels.kernels_by_launch(view) == []
    assert kernels.kernels(view_of()) == []
