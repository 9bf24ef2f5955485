from __future__ import annotations

import json
from typing import Any

from laptime.records.tables import OperatorRow
from laptime.trace.reading import reader
from laptime.trace.tables import operators
from laptime.trace.view import View, find_steps, link


def event(cat: str, name: str, ts: float, dur: float, /, tid: int | str = 1, **args: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "pid": 7, "tid": tid, "ts": ts, "dur": dur, "args": args}


def op(name: str, ts: float, dur: float, /, tid: int = 1, **args: Any) -> dict[str, Any]:
    named = {key.replace("_", " "): value for key, value in args.items()}
    return event("cpu_op", name, ts, dur, tid, **named)


def launch(
    ts: float, dur: float, correlation: int, /, tid: int = 1, cat: str = "cuda_runtime"
) -> dict[str, Any]:
    name = "cuLaunchKernel" if cat == "cuda_driver" else "cudaLaunchKernel"
    return event(cat, name, ts, dur, tid, correlation=correlation)


def work(name: str, ts: float, dur: float, correlation: int, /, cat: str = "kernel") -> dict[str, Any]:
    return event(cat, name, ts, dur, 7, device=0, stream=7, correlation=correlation)


def view_of(*events: dict[str, Any]) -> View:
    trace = reader.parse(json.dumps(list(events)).encode())
    linked = link(trace)
    return View(trace, linked, find_steps(trace, linked))


def rows(*events: dict[str, Any]) -> dict[str, OperatorRow]:
    return {row.name: row for row in operators.operators(view_of(*events))}


def host(row: OperatorRow) -> tuple[int, int, int]:
    return row.calls, row.host_total_ns, row.host_self_ns


def device(row: OperatorRow) -> tuple[int, int, int]:
    return row.kernels, row.device_total_ns, row.device_self_ns


def test_self_time_is_without_children_and_own_launches() -> None:
    found = rows(
        op("aten::linear", 0, 100),
        launch(5, 3, 1),
        op("aten::addmm", 10, 50),
        launch(20, 10, 2),
        work("copy", 30, 4, 1, cat="gpu_memcpy"),
        work("gemm", 40, 200, 2),
    )
    assert host(found["aten::linear"]) == (1, 100_000, 47_000)
    assert device(found["aten::linear"]) == (1, 204_000, 4_000)
    assert host(found["aten::addmm"]) == (1, 50_000, 40_000)
    assert device(found["aten::addmm"]) == (1, 200_000, 200_000)


def test_annotations_are_not_listed_but_their_time_is_not_their_parents_own() -> None:
    found = rows(
        op("aten::outer", 0, 100),
        event("user_annotation", "mine", 10, 50),
        launch(20, 10, 1),
        work("gemm", 40, 7, 1),
    )
    assert list(found) == ["aten::outer"]
    assert host(found["aten::outer"]) == (1, 100_000, 50_000)
    assert device(found["aten::outer"]) == (1, 7_000, 7_000)


def test_an_only_child_of_the_same_name_is_one_call_with_its_parent() -> None:
    found = rows(
        op("aten::mul", 0, 100),
        launch(1, 2, 1),
        op("aten::mul", 10, 80),
        op("aten::mul", 20, 60),
        op("aten::empty", 30, 5),
        launch(40, 10, 2),
        work("k", 50, 3, 1),
        work("k", 60, 4, 2),
    )
    assert host(found["aten::mul"]) == (1, 100_000, 83_000)
    assert device(found["aten::mul"]) == (2, 7_000, 7_000)


def test_a_child_of_the_same_name_with_a_sibling_stays_a_call_of_its_own() -> None:
    found = rows(op("aten::mul", 0, 100), op("aten::mul", 10, 20), op("aten::empty", 40, 5))
    assert host(found["aten::mul"]) == (2, 120_000, 95_000)


def test_device_time_of_an_operator_in_one_of_its_own_name_counts_once() -> None:
    found = rows(
        op("aten::mm", 0, 100),
        op("aten::empty", 5, 2),
        op("aten::mm", 10, 50),
        launch(20, 10, 1),
        work("ampere_fp16_s16816gemm", 40, 200, 1),
    )
    assert device(found["aten::mm"]) == (1, 200_000, 200_000)
    assert found["aten::mm"].tensor_core_total == 1.0


def test_other_threads_do_not_nest_and_a_driver_call_launches_too() -> None:
    found = rows(
        op("aten::outer", 0, 100),
        op("aten::mm", 10, 20, tid=2),
        launch(11, 2, 9, tid=2, cat="cuda_driver"),
        work("nvjet_hsh_128x64", 40, 30, 9),
    )
    assert host(found["aten::outer"]) == (1, 100_000, 100_000)
    assert device(found["aten::outer"]) == (0, 0, 0)
    assert device(found["aten::mm"]) == (1, 30_000, 30_000)


def test_a_child_that_ends_after_its_parent_takes_only_what_is_inside() -> None:
    found = rows(op("a", 0, 10), op("b", 5, 10))
    assert host(found["a"]) == (1, 10_000, 5_000)


def test_wrappers_and_steps_are_not_operators() -> None:
    outside = [
        "DataParallel.forward",
        "DistributedDataParallel.forward",
        "Optimizer.step#SGD.step",
        "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
        "ProfilerStep#3",
    ]
    found = rows(*(op(name, at * 10, 5) for at, name in enumerate([*outside, "aten::mm"])))
    assert list(found) == ["aten::mm"]


def test_tensor_core_shares_and_what_could_use_them_reach_the_parents() -> None:
    found = rows(
        op("aten::outer", 0, 100),
        op("my::gemm", 10, 30),
        launch(11, 2, 1),
        launch(15, 2, 2),
        op("aten::mm", 50, 10),
        op("aten::add", 70, 10),
        launch(71, 2, 3),
        work("volta_s884gemm", 200, 30, 1),
        work("elementwise", 240, 10, 2),
        work("elementwise", 260, 60, 3),
    )
    outer, gemm, mm, add = (found[name] for name in ("aten::outer", "my::gemm", "aten::mm", "aten::add"))
    assert [row.tensor_core_eligible for row in (outer, gemm, mm, add)] == [True, True, True, False]
    assert (outer.tensor_core_self, outer.tensor_core_total) == (None, 0.3)
    assert (gemm.tensor_core_self, gemm.tensor_core_total) == (0.75, 0.75)
    assert (mm.tensor_core_self, mm.tensor_core_total) == (None, None)
    assert (add.tensor_core_self, add.tensor_core_total) == (0.0, 0.0)


def test_shapes_make_rows_and_are_one_line_however_the_file_writes_them() -> None:
    events = [
        op("aten::mm", at * 10, at + 1, Input_Dims=dims, Input_type=["float", kind])
        for at, (dims, kind) in enumerate(
            [([[2, 3], []], "int"), ([[2, 3], []], "int"), ([[5, 3], []], "float")]
        )
    ]
    trace = reader.parse(json.dumps(events, indent=2).encode())
    linked = link(trace)
    view = View(trace, linked, find_steps(trace, linked))
    by_shape = operators.operators_by_shape(view)
    assert [(row.id, row.shapes, row.calls, row.host_total_ns) for row in by_shape] == [
        ("aten::mm [[2, 3], []]", "[[2, 3], []]", 2, 3_000),
        ("aten::mm [[5, 3], []]", "[[5, 3], []]", 1, 3_000),
    ]
    (by_name,) = operators.operators(view)
    assert (by_name.id, by_name.shapes) == ("aten::mm", "")
    assert by_name.dtypes == ['["float", "int"]', '["float", "float"]']


def test_the_most_costly_places_come_first_and_are_at_most_five() -> None:
    events = [
        op("aten::mm", at * 10, at % 7 + 1, Call_stack=f"m.py({at % 7}): f;t.py(1): g") for at in range(14)
    ]
    (row,) = operators.operators(view_of(*events))
    assert [stack.frames[0] for stack in row.stacks] == [f"m.py({at}): f" for at in (6, 5, 4, 3, 2)]
    assert [(stack.calls, stack.host_self_ns) for stack in row.stacks[:2]] == [(2, 14_000), (2, 12_000)]


def test_device_time_orders_the_rows_and_without_a_device_host_time_does() -> None:
    calls = [op("a", 0, 10), op("b", 20, 50), op("c", 80, 20)]
    assert list(rows(*calls)) == ["b", "c", "a"]
    with_device = rows(*calls, launch(1, 1, 1), launch(81, 1, 2), work("k", 100, 9, 1), work("k", 120, 5, 2))
    assert list(with_device) == ["a", "c", "b"]


def test_a_trace_of_nothing_but_kernels_has_no_operators() -> None:
    assert rows(work("k", 0, 5, 1)) == {}
    assert operators.operators_by_shape(view_of(work("k", 0, 5, 1))) == []
    assert rows() == {}
