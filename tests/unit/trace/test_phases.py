"""Parts of the training step. Times are microseconds in the events."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fixtures import traces
from laptime.trace import phases
from laptime.trace.columns import Trace
from laptime.trace.reading import reader
from laptime.trace.view import View, find_steps, link

Event = dict[str, Any]
LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
NOTE = "user_annotation"


def seen(trace: Trace) -> View:
    linked = link(trace)
    return View(trace, linked, find_steps(trace, linked))


def view(*events: Event) -> View:
    return seen(reader.parse(json.dumps({"traceEvents": list(events)}).encode()))


def on(name: str, start: float, end: float, cat: str = "cpu_op", /, tid: int = 1, **args: Any) -> Event:
    dur = end - start
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": start, "dur": dur, "args": args}


def us(*events: Event) -> dict[str, float]:
    return {phase.name: phase.host_ns / 1000 for phase in phases.phases(view(*events))}


def training(engine: int) -> list[Event]:
    """A step of 200 us, its backward on this thread."""
    return [
        on("ProfilerStep#1", 0, 200, NOTE),
        on(LOADER, 0, 30, NOTE),
        on("aten::stack", 10, 20),
        on("aten::to", 32, 40),
        on("aten::conv2d", 45, 60),
        on("aten::loss", 61, 70),
        on("autograd::engine::evaluate_function: NllBackward0", 75, 90, tid=engine),
        on("autograd::engine::evaluate_function: ConvBackward0", 95, 130, tid=engine),
        on("Optimizer.step#SGD.step", 140, 170, NOTE),
        on("aten::add_", 141, 169),
        on("Optimizer.zero_grad#SGD.zero_grad", 172, 180, NOTE),
        on("aten::item", 185, 190),
    ]


@pytest.mark.parametrize("engine", [1, 2])
def test_a_training_step_in_parts_wherever_its_backward_runs(engine: int) -> None:
    assert us(*training(engine)) == {
        "data": 30,
        "forward": 38,
        "backward": 55,
        "optimizer": 38,
        "other": 2 + 5 + 10 + 2 + 20,
    }


def test_laptimes_own_annotations_come_first() -> None:
    own = [
        on("laptime::data", 0, 31, NOTE),
        on("laptime::forward", 31, 60, NOTE),
        on("laptime::backward", 70, 138, NOTE),
        on("laptime::optimizer", 139, 171, NOTE),
    ]
    assert us(*training(2), *own) == {
        "data": 31,
        "forward": 29,
        "loss": 10,
        "backward": 68,
        "optimizer": 32 + 8,
        "other": 22,
    }


def test_a_closure_inside_the_optimizers_step_is_not_the_optimizer() -> None:
    found = us(
        on("ProfilerStep#1", 0, 100, NOTE),
        on("laptime::optimizer", 0, 100, NOTE),
        on("laptime::forward", 10, 30, NOTE),
        on("laptime::backward", 30, 70, NOTE),
        on("aten::mm", 12, 20),
    )
    assert found == {"forward": 20, "backward": 40, "optimizer": 40}


def test_each_accumulated_batch_has_its_forward_and_backward() -> None:
    found = us(
        on("ProfilerStep#1", 0, 100, NOTE),
        on("aten::mm", 0, 10),
        on("autograd::engine::evaluate_function: MmBackward0", 10, 30, tid=2),
        on("aten::mm", 32, 40),
        on("autograd::engine::evaluate_function: MmBackward0", 40, 60, tid=2),
        on("Optimizer.step#SGD.step", 60, 100, NOTE),
    )
    assert found == {"forward": 18, "backward": 40, "optimizer": 40, "other": 2}


def test_without_any_backward_all_operators_are_forward() -> None:
    found = us(
        on("ProfilerStep#1", 0, 100, NOTE),
        on(LOADER, 0, 20, NOTE),
        on("aten::mm", 30, 40),
        on("aten::relu", 50, 90),
    )
    assert found == {"data": 20, "forward": 60, "other": 20}


def test_old_backwards_are_known_by_their_forward_thread() -> None:
    found = us(
        on("ProfilerStep#1", 0, 100),
        on("aten::addmm", 0, 40),
        on("AddmmBackward", 40, 70, tid=2, **{"Fwd thread id": 1, "Sequence number": 4}),
        on("torch::autograd::AccumulateGrad", 72, 80, tid=2),
        on("Optimizer.step#SGD.step", 80, 100),
    )
    assert found == {"forward": 40, "backward": 40, "optimizer": 20}


def test_phases_are_means_that_sum_to_the_mean_step() -> None:
    found = phases.phases(
        view(
            on("ProfilerStep#1", 0, 100.001, NOTE),
            on("ProfilerStep#2", 100.001, 200.002, NOTE),
            on("ProfilerStep#3", 200.002, 300, NOTE),
            on("aten::mm", 10.001, 50),
            on("Optimizer.step#SGD.step", 250, 280.001, NOTE),
        )
    )
    assert sum(phase.host_ns for phase in found) == 100_000


def test_device_time_belongs_to_the_phase_of_its_launch() -> None:
    kernel = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "dur": 50}
    found = phases.phases(
        view(
            *training(2),
            on("cudaLaunchKernel", 46, 48, "cuda_runtime", correlation=1),
            on("cudaLaunchKernel", 100, 102, "cuda_runtime", tid=2, correlation=2),
            kernel | {"ts": 60, "args": {"correlation": 1, "device": 0, "stream": 7}},
            kernel | {"ts": 150, "args": {"correlation": 2, "device": 0, "stream": 7}},
        )
    )
    device = {phase.name: phase.device_ns for phase in found}
    assert device == {"data": 0, "forward": 50_000, "backward": 50_000, "optimizer": 0, "other": 0}


def test_a_trace_without_a_thread_that_works_has_no_phases() -> None:
    kernel = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 0, "dur": 5, "args": {}}
    assert phases.phases(view(kernel)) == []
    assert phases.threads(view(kernel)) == (0, None)


def test_the_loop_is_where_operators_run_even_if_steps_are_written_elsewhere() -> None:
    given = view(on("ProfilerStep#1", 0, 100, NOTE, tid=5), on("aten::mm", 10, 20, tid=6))
    assert given.trace.threads[phases.loop_thread(given)].tid == "6"


def test_threads_are_counted_while_they_are_inside_an_operator() -> None:
    found = phases.threads(
        view(
            on("ProfilerStep#1", 0, 100),
            on("aten::mm", 0, 50),
            on("aten::addmm", 10, 20),
            on("aten::mm", 25, 75, tid=2),
        )
    )
    assert found == (2, 1.0)


def test_real_training_steps_have_all_phases() -> None:
    given = seen(reader.read(traces.path("resnet50_num_workers_0.json.gz")))
    found = {phase.name: phase for phase in phases.phases(given)}
    assert list(found) == ["data", "forward", "backward", "optimizer", "other"]
    assert found["data"].host_ns == pytest.approx(69.3e6, rel=0.01)
    assert found["other"].host_ns < 1e6
    device = sum(phase.device_ns or 0 for phase in found.values())
    whole = given.trace.device.end - given.trace.device.start
    assert device * 6 == pytest.approx(int(whole.sum()), rel=0.001)
