from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from laptime.records.tables import ModuleRow
from laptime.trace import view
from laptime.trace.reading import reader
from laptime.trace.tables import modules
from laptime.trace.view import View

Event = dict[str, Any]


def event(cat: str, name: str, ts: float, dur: float, /, tid: int = 1, **args: Any) -> Event:
    return {"ph": "X", "cat": cat, "name": name, "pid": 7, "tid": tid, "ts": ts, "dur": dur, "args": args}


def module(name: str, ts: float, dur: float, number: int = 0) -> Event:
    return event("python_function", f"nn.Module: {name}", ts, dur, **{"Python module id": number})


def op(name: str, ts: float, dur: float, /, tid: int = 1, **args: Any) -> Event:
    named = {key.replace("_", " "): value for key, value in args.items()}
    return event("cpu_op", name, ts, dur, tid, **named)


def kernel(launched: float, dur: float, correlation: int, /, tid: int = 1) -> list[Event]:
    call = event("cuda_runtime", "cudaLaunchKernel", launched, 1, tid, correlation=correlation)
    return [call, event("kernel", "k", launched + 500, dur, 9, device=0, stream=7, correlation=correlation)]


def arrow(number: int, begin: float, end: float, to: int = 2) -> list[Event]:
    same = {"cat": "fwdbwd", "name": "fwdbwd", "id": number, "pid": 7}
    return [{"ph": "s", "tid": 1, "ts": begin, **same}, {"ph": "f", "bp": "e", "tid": to, "ts": end, **same}]


def view_of(events: list[Event]) -> View:
    trace = reader.parse(json.dumps(events).encode())
    linked = view.link(trace)
    return View(trace, linked, view.find_steps(trace, linked))


def table(*events: Event) -> dict[str, ModuleRow]:
    return {row.id: row for row in modules.modules(view_of(list(events)))}


def forward(ts: float) -> list[Event]:
    """Net(Linear_0, Linear_1), with an operator of its own; 100 us."""
    return [
        module("Net_0", ts, 100),
        event("python_function", "net.py(5): forward", ts + 1, 98),
        module("Linear_0", ts + 10, 20),
        op("aten::linear", ts + 12, 15),
        op("aten::mm", ts + 13, 10),
        module("Linear_1", ts + 40, 30, 1),
        op("aten::linear", ts + 42, 20),
        op("aten::add", ts + 80, 10),
    ]


def test_the_tree_has_times_with_and_without_child_modules() -> None:
    found = table(*forward(0), *forward(200))
    assert list(found) == ["Net_0", "Net_0/Linear_0", "Net_0/Linear_1"]
    net, linear = found["Net_0"], found["Net_0/Linear_0"]
    assert (net.calls, net.host_total_ns, net.host_self_ns, net.operators) == (2, 200_000, 100_000, 2)
    assert (linear.calls, linear.host_total_ns, linear.host_self_ns, linear.operators) == (
        2,
        40_000,
        40_000,
        2,
    )
    assert (net.parent, net.depth, linear.parent, linear.depth) == ("", 0, "Net_0", 1)
    assert {row.source for row in found.values()} == {"python"}


def test_device_time_goes_to_the_module_that_launched_and_to_those_around_it() -> None:
    found = table(*forward(0), *kernel(14, 40, 1), *kernel(45, 7, 2), *kernel(85, 3, 3), *kernel(150, 99, 4))
    device = {name: (row.device_total_ns, row.device_self_ns) for name, row in found.items()}
    assert device == {
        "Net_0": (50_000, 3_000),
        "Net_0/Linear_0": (40_000, 40_000),
        "Net_0/Linear_1": (7_000, 7_000),
    }


def test_a_module_in_two_places_is_two_nodes_and_siblings_come_as_they_begin() -> None:
    found = table(
        module("Z_0", 0, 10),
        module("Shared_0", 1, 5),
        module("A_0", 20, 10),
        module("Shared_0", 21, 6),
    )
    assert list(found) == ["Z_0", "Z_0/Shared_0", "A_0", "A_0/Shared_0"]
    assert found["A_0/Shared_0"].host_total_ns == 6_000


def test_names_without_a_number_are_told_apart_by_the_modules_id() -> None:
    found = table(module("Net", 0, 50, 3), module("Linear", 1, 5, 1), module("Linear", 11, 5, 2))
    assert list(found) == ["Net_3", "Net_3/Linear_1", "Net_3/Linear_2"]
    assert [row.name for row in found.values()] == ["Net", "Linear", "Linear"]


def engine(node: str, ts: float, dur: float, /, tid: int = 2, **args: Any) -> list[Event]:
    around = op(f"autograd::engine::evaluate_function: {node}", ts, dur, tid, **args)
    return [around, op(node, ts + 1, dur - 2, tid, **args), op("aten::mm", ts + 2, 1, tid)]


BACKWARD = [*engine("AddBackward0", 300, 10), *engine("MmBackward0", 320, 30), *kernel(325, 77, 1, tid=2)]


def test_backward_is_found_by_arrows_on_another_thread() -> None:
    found = table(*forward(0), *BACKWARD, *arrow(1, 80, 301), *arrow(2, 13, 321))
    assert {name: (row.backward_host_ns, row.backward_device_ns) for name, row in found.items()} == {
        "Net_0": (40_000, 77_000),
        "Net_0/Linear_0": (30_000, 77_000),
        "Net_0/Linear_1": (0, 0),
    }


def test_backward_is_found_by_sequence_numbers_where_there_are_no_arrows() -> None:
    calls = forward(0)
    calls[4]["args"] = {"Sequence number": 5, "Fwd thread id": 0}
    calls[7]["args"] = {"Sequence number": 6, "Fwd thread id": 0}
    back = [
        *engine("AddBackward0", 300, 10, Sequence_number=6, Fwd_thread_id=1),
        *engine("MmBackward0", 320, 30, Sequence_number=5, Fwd_thread_id=1),
    ]
    found = table(*calls, *back)
    assert {name: row.backward_host_ns for name, row in found.items()} == {
        "Net_0": 40_000,
        "Net_0/Linear_0": 30_000,
        "Net_0/Linear_1": 0,
    }


def test_a_sequence_number_of_two_threads_tells_nothing() -> None:
    calls = forward(0)
    calls[4]["args"] = {"Sequence number": 5, "Fwd thread id": 0}
    other = op("aten::mm", 13, 10, 3, Sequence_number=5, Fwd_thread_id=0)
    back = engine("MmBackward0", 320, 30, Sequence_number=5, Fwd_thread_id=1)
    assert table(*calls, other, *back)["Net_0"].backward_host_ns is None


def test_backward_inside_backward_is_counted_once() -> None:
    outer = op("autograd::engine::evaluate_function: CheckpointFunctionBackward", 300, 100, 2)
    inner = engine("MmBackward0", 320, 30)
    found = table(*forward(0), outer, *inner, *arrow(1, 80, 300), *arrow(2, 13, 321))
    assert found["Net_0"].backward_host_ns == 100_000
    assert found["Net_0/Linear_0"].backward_host_ns == 30_000


def test_backward_is_unknown_without_arrows_and_numbers() -> None:
    net = table(*forward(0), *BACKWARD)["Net_0"]
    assert (net.backward_host_ns, net.backward_device_ns) == (None, None)


def test_module_hierarchy_of_operators_serves_where_no_function_names_modules() -> None:
    def call(name: str, ts: float, dur: float, where: str) -> Event:
        return op(name, ts, dur, Module_Hierarchy=where)

    def step(ts: float) -> list[Event]:
        return [
            call("forward", ts, 100, "TOP(Net)::forward."),
            call("aten::linear", ts + 10, 30, "TOP(Net)::forward.b0(Block)::forward.a(Linear)::forward."),
            call("aten::mm", ts + 12, 20, "TOP(Net)::forward.b0(Block)::forward.a(Linear)::forward."),
            call("aten::relu", ts + 50, 5, "TOP(Net)::forward.b0(Block)::forward.SELF(Block)::act."),
            call("aten::sum", ts + 110, 5, ""),
        ]

    found = table(*step(0), *step(200), *kernel(15, 9, 1))
    shown = {
        name: (row.calls, row.operators, row.host_total_ns, row.host_self_ns, row.device_total_ns)
        for name, row in found.items()
    }
    assert shown == {
        "Net": (2, 2, 200_000, 130_000, 9_000),
        "Net/b0(Block)": (2, 2, 70_000, 10_000, 9_000),
        "Net/b0(Block)/a(Linear)": (2, 2, 60_000, 60_000, 9_000),
    }
    assert {row.source for row in found.values()} == {"hierarchy"}


@pytest.mark.parametrize("events", [[], [op("aten::mm", 0, 5, Module_Hierarchy="")], kernel(0, 5, 1)])
def test_a_trace_without_modules_has_no_rows(events: list[Event]) -> None:
    assert modules.modules(view_of(events)) == []


@pytest.mark.slow
@pytest.mark.torch
def test_what_torch_writes_today_is_understood(tmp_path: Path, trained: Callable[[Path], Path]) -> None:
    trace = reader.read(trained(tmp_path / "trace.json"))
    linked = view.link(trace)
    rows = {row.id: row for row in modules.modules(View(trace, linked, view.find_steps(trace, linked)))}
    assert [name.rsplit("/")[-1].rstrip("0123456789") for name in rows] == [
        "Sequential_",
        "Linear_",
        "ReLU_",
        "Linear_",
    ]
    assert {row.calls for row in rows.values()} == {2}
    root, *layers = rows.values()
    assert root.host_total_ns - root.host_self_ns == sum(row.host_total_ns for row in layers)
    assert all(row.backward_host_ns for row in layers)
    assert root.backward_host_ns == sum(row.backward_host_ns or 0 for row in layers)


@pytest.fixture
def trained() -> Callable[[Path], Path]:
    def run(path: Path) -> Path:
        import torch
        from torch.profiler import ProfilerActivity, profile

        model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
        data = torch.randn(4, 8)
        with profile(activities=[ProfilerActivity.CPU], with_stack=True) as profiler:
            for _ in range(2):
                model(data).sum().backward()
        profiler.export_chrome_trace(str(path))
        return path

    return run
