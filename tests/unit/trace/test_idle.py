"""Why the device was idle. Times are microseconds in the events."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fixtures import traces
from laptime.records.overview import Idle, IdleCause
from laptime.trace.reading import reader
from laptime.trace.tables import idle, overview
from laptime.trace.view import View, find_steps, link

Event = dict[str, Any]
LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def view(events: list[Event]) -> View:
    return seen(reader.parse(json.dumps({"traceEvents": events}).encode()))


def seen(trace: Any) -> View:
    linked = link(trace)
    return View(trace, linked, find_steps(trace, linked))


def shared(name: str) -> View:
    return seen(reader.read(traces.path(name)))


def on(name: str, start: float, end: float, cat: str = "cpu_op", /, tid: Any = 1, **args: Any) -> Event:
    dur = end - start
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": start, "dur": dur, "args": args}


def step(number: int, start: float, end: float) -> Event:
    return on(f"ProfilerStep#{number}", start, end, "user_annotation")


def call(name: str, start: float, end: float, id_: int = 0, tid: int = 1) -> Event:
    return on(name, start, end, "cuda_runtime", tid, correlation=id_)


def gpu(
    start: float, end: float, id_: int = 0, name: str = "k", cat: str = "kernel", device: int = 0
) -> Event:
    event = on(name, start, end, cat, 7, device=device, stream=7, correlation=id_)
    return event | {"pid": device}


def launched(call_at: float, start: float, end: float, id_: int, tid: int = 1) -> list[Event]:
    """A launch of 4 us and its kernel."""
    return [call("cudaLaunchKernel", call_at, call_at + 4, id_, tid), gpu(start, end, id_)]


def found(*events: Event | list[Event]) -> Idle:
    flat = [event for each in events for event in (each if isinstance(each, list) else [each])]
    result = idle.idle(view(flat))
    assert result is not None
    assert sum(cause.total_ns for cause in result.causes) == result.total_ns
    for cause in result.causes:
        assert sum(ns for _, ns in cause.operators) <= cause.total_ns
        assert 0 < cause.longest_ns <= cause.total_ns
        assert cause.gaps > 0
    return result


def us(result: Idle) -> dict[str, float]:
    return {cause.cause: cause.total_ns / 1000 for cause in result.causes}


def of(result: Idle, cause: str) -> IdleCause:
    return next(each for each in result.causes if each.cause == cause)


def test_a_gap_is_told_by_what_the_host_did_until_it_launched() -> None:
    result = found(
        step(1, 0, 100),
        *launched(0, 5, 10, 1),
        on(LOADER, 12, 40, "user_annotation"),
        on("aten::stack", 20, 30),
        on("aten::add", 50, 60),
        *launched(54, 62, 100, 2),
    )
    # 0-4 the first launch, 4-5 its latency; 10-12, 40-58 the host, 12-40 data, 58-62 latency.
    assert us(result) == {"host": 24, "data": 28, "other": 5}
    assert of(result, "data").operators == [(LOADER, 18_000), ("aten::stack", 10_000)]
    assert ("aten::add", 8_000) in of(result, "host").operators
    assert ("Python", 12_000) in of(result, "host").operators
    assert of(result, "other").operators == [("launch latency", 5_000)]
    assert of(result, "host").gaps == 2
    assert result.total_ns == 57_000
    assert result.window_ns == 100_000


def test_work_that_was_launched_before_the_gap_leaves_it_to_the_device() -> None:
    result = found(step(1, 0, 60), *launched(0, 0, 20, 1), *launched(6, 25, 60, 2))
    assert us(result) == {"other": 5}
    assert of(result, "other").operators == [("between launched activities", 5_000)]


def item(at: float, until: float, id_: int) -> list[Event]:
    """`.item()` that waits from `at` until the device is done: a copy of 2 us ends 2 us before `until`."""
    return [
        on("aten::item", at, until, **{"Call stack": "train.py(30): train;train.py(40): <module>"}),
        on("aten::_local_scalar_dense", at, until),
        call("cudaMemcpyAsync", at + 1, at + 3, id_),
        gpu(until - 4, until - 2, id_, "Memcpy DtoH (Device -> Pinned)", "gpu_memcpy"),
        call("cudaStreamSynchronize", at + 3, until),
    ]


def test_item_at_the_end_of_every_step_is_blamed_with_its_line() -> None:
    events = []
    for number in range(4):
        begin = 1000 * number
        events += [
            step(number, begin, begin + 1000),
            on("aten::mm", begin + 60, begin + 70),
            *launched(begin + 62, begin + 70, begin + 900, 2 * number + 1),
            *item(begin + 100, begin + 904, 2 * number + 2),
        ]
    result = found(events)
    cause = result.causes[0]
    assert cause.cause == "synchronisation"
    assert cause.operators[0][0] == "aten::item"
    assert cause.stack == ["train.py(30): train", "train.py(40): <module>"]
    # In steps 1 to 3: 902 to 1066; the wait before had lasted about 800 us. Before step 0 there was none.
    assert cause.total_ns == (3 * (1066 - 902) + 1000 - 902) * 1000
    assert us(result)["host"] == 66


def test_item_in_a_step_of_slow_launches_is_blamed_for_what_it_waited_only() -> None:
    events = []
    for number in range(4):
        begin = 1000 * number
        events += [
            step(number, begin, begin + 1000),
            *launched(begin + 500, begin + 504, begin + 506, 2 * number + 1),
            *item(begin + 504, begin + 514, 2 * number + 2),
        ]
    result = found(events)
    assert us(result)["host"] > 0.95 * result.total_ns / 1000
    assert us(result)["synchronisation"] < 50


def test_a_wait_is_blamed_for_no_more_than_the_lead_it_cost() -> None:
    result = found(
        step(1, 0, 400),
        *launched(0, 0, 100, 1),
        call("cudaStreamSynchronize", 70, 100),
        *launched(120, 124, 150, 2),  # 24 us late
        *launched(246, 250, 400, 3),  # 100 us late
    )
    assert us(result) == {"synchronisation": 30, "host": 94}
    assert of(result, "synchronisation").operators == [("cudaStreamSynchronize", 30_000)]


def test_staging_a_batch_from_pageable_memory_is_copy() -> None:
    result = found(
        step(1, 0, 100),
        *launched(0, 0, 10, 1),
        on("aten::to", 20, 62),
        on("aten::copy_", 21, 62),
        call("cudaMemcpyAsync", 22, 60, 2),
        gpu(50, 60, 2, "Memcpy HtoD (Pageable -> Device)", "gpu_memcpy"),
        call("cudaStreamSynchronize", 60, 62),
        *launched(70, 75, 100, 3),
    )
    assert us(result)["copy"] == 28
    assert of(result, "copy").operators == [("aten::to", 28_000)]
    # The call waited 10 us while the device was busy, copying: so much lead was lost, and more is host.
    assert us(result)["synchronisation"] == 2 + 10


def test_a_copy_that_nobody_waits_for_is_an_ordinary_launch() -> None:
    result = found(
        step(1, 0, 100),
        *launched(0, 0, 10, 1),
        call("cudaMemcpyAsync", 20, 40, 2),
        gpu(45, 100, 2, "Memcpy HtoD (Pinned -> Device)", "gpu_memcpy"),
    )
    assert us(result) == {"host": 30, "other": 5}


def test_a_collective_that_the_host_carries_out_is_communication() -> None:
    result = found(
        step(1, 0, 100),
        *launched(0, 0, 10, 1),
        on("gloo:all_reduce", 15, 80, "user_annotation", tid=9),
        on("gloo:all_reduce", 15, 80, "user_annotation"),
        *launched(90, 94, 100, 2),
    )
    assert us(result) == {"communication": 65, "host": 19}


def test_before_the_backward_thread_works_the_loop_speaks() -> None:
    result = found(
        step(1, 0, 200),
        *launched(0, 0, 10, 1),
        on("aten::loss", 20, 50),
        on("autograd::engine::evaluate_function: MmBackward0", 60, 100, tid=2),
        *launched(80, 84, 200, 2, tid=2),
    )
    named = dict(of(result, "host").operators)
    assert named == {
        "aten::loss": 30_000,
        "autograd::engine::evaluate_function: MmBackward0": 24_000,
        "Python": 20_000,
    }


def test_work_without_a_launch_tells_data_or_nothing() -> None:
    result = found(
        step(1, 0, 100),
        on(LOADER, 20, 50, "user_annotation"),
        gpu(0, 10),
        gpu(60, 100),
    )
    assert us(result) == {"data": 30, "other": 20}
    assert of(result, "other").operators == [("no launch in the trace", 20_000)]


def test_after_the_last_activity_the_loop_speaks() -> None:
    result = found(step(1, 0, 100), *launched(0, 0, 10, 1), on(LOADER, 40, 100, "user_annotation"))
    assert us(result) == {"data": 60, "host": 30}


def test_a_loader_that_only_shows_as_a_python_function_is_data() -> None:
    name = "torch/utils/data/dataloader.py(733): __next__"
    result = found(
        step(1, 0, 100),
        on(name, 20, 80, "python_function", **{"Python id": 1, "Python parent id": None}),
        on("PIL/Image.py(9): load", 30, 70, "python_function", **{"Python id": 2, "Python parent id": 1}),
        *launched(0, 0, 10, 1),
        *launched(90, 94, 100, 2),
    )
    assert us(result) == {"data": 60, "host": 24}
    assert of(result, "data").operators == [("PIL/Image.py(9): load", 40_000), (name, 20_000)]
    assert of(result, "data").stack == ["PIL/Image.py(9): load", name] or of(result, "data").stack == [name]


def test_all_accelerators_are_summed() -> None:
    result = found(step(1, 0, 100), gpu(0, 90, 0), gpu(0, 60, 0, device=1))
    assert result.total_ns == 50_000
    assert result.window_ns == 200_000


def test_old_steps_that_are_operators_are_not_what_the_host_was_doing() -> None:
    result = found(on("ProfilerStep#5", 0, 100), *launched(0, 0, 10, 1), *launched(90, 94, 100, 2))
    assert of(result, "host").operators == [("Python", 80_000), ("cudaLaunchKernel", 4_000)]


def test_without_an_accelerator_there_is_nothing_to_say() -> None:
    assert idle.idle(view([step(1, 0, 100), on("aten::add", 0, 50)])) is None


def test_a_loader_without_workers_explains_the_idle_time() -> None:
    result = idle.idle(shared("resnet50_num_workers_0.json.gz"))
    assert result is not None
    first = result.causes[0]
    assert first.cause == "data"
    assert first.share_of_idle > 0.75
    assert first.total_ns / 6 == pytest.approx(59e6, rel=0.02)
    assert first.operators[0][0] == LOADER


def test_with_workers_the_loader_explains_little() -> None:
    result = idle.idle(shared("resnet50_num_workers_4.json.gz"))
    assert result is not None
    assert result.causes[0].cause == "host"
    assert of(result, "data").share_of_idle < 0.05
    # One copy of a batch took 36 ms in its call: the host staged it out of pageable memory.
    assert of(result, "copy").operators[0][0] == "aten::to"
    assert of(result, "copy").longest_ns == 36_436_000


@pytest.mark.parametrize("name", ["nccl_a100", "h100_bert_small", "h100_vit"])
def test_a_device_that_waits_for_launches_blames_the_host(name: str) -> None:
    result = idle.idle(shared(f"{name}.json.gz"))
    assert result is not None
    assert of(result, "host").share_of_idle > 0.95


def test_a_device_that_computes_all_the_time_is_hardly_idle() -> None:
    result = idle.idle(shared("ns_resolution_v100.json.gz"))
    assert result is not None
    assert result.total_ns / result.window_ns < 0.025


@pytest.mark.parametrize("name", traces.names())
def test_causes_sum_to_the_idle_time_of_all_devices(name: str) -> None:
    given = seen(reader.read(traces.path(name)))
    result = idle.idle(given)
    expected = sum(each.idle_ns for each in overview.use(given))
    assert (result.total_ns if result else 0) == expected
    assert sum(cause.total_ns for cause in result.causes if result) == expected if result else True
