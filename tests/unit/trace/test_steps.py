"""Device-aware steps. Times are microseconds in the events, nanoseconds in what is found."""

from __future__ import annotations

import json
from typing import Any

from laptime.trace import view
from laptime.trace.reading import reader
from laptime.trace.view import Steps

Event = dict[str, Any]


def find(*events: Event) -> Steps:
    trace = reader.parse(json.dumps({"traceEvents": list(events)}).encode())
    return view.find_steps(trace, view.link(trace))


def us(found: Steps) -> list[tuple[int, int, int]]:
    """(number, start, end) in microseconds since the first event."""
    return [
        (number, start // 1000, end // 1000)
        for number, start, end in zip(
            found.number.tolist(), found.start.tolist(), found.end.tolist(), strict=True
        )
    ]


def host(name: str, start: int, end: int, cat: str = "cpu_op", tid: int = 1, **args: Any) -> Event:
    return {
        "ph": "X",
        "cat": cat,
        "name": name,
        "pid": 1,
        "tid": tid,
        "ts": start,
        "dur": end - start,
        "args": args,
    }


def step(number: int, start: int, end: int, cat: str = "user_annotation") -> Event:
    return host(f"ProfilerStep#{number}", start, end, cat)


def launch(id_: int, start: int, end: int, cat: str = "cuda_runtime") -> Event:
    return host("cudaLaunchKernel", start, end, cat, correlation=id_)


def kernel(id_: int, start: int, end: int) -> Event:
    args = {"device": 0, "stream": 7, "correlation": id_}
    return {
        "ph": "X",
        "cat": "kernel",
        "name": "k",
        "pid": 0,
        "tid": 7,
        "ts": start,
        "dur": end - start,
        "args": args,
    }


def test_a_step_ends_with_the_last_work_it_launched_and_the_next_begins_there() -> None:
    found = find(
        step(1, 0, 100),
        step(2, 100, 200),
        launch(1, 10, 12),
        kernel(1, 20, 130),
        launch(2, 150, 152),
        kernel(2, 160, 170),
    )
    assert us(found) == [(1, 0, 130), (2, 130, 200)]
    assert found.host_start.tolist() == [0, 100_000]
    assert found.host_end.tolist() == [100_000, 200_000]


def test_a_gap_between_steps_belongs_to_none() -> None:
    found = find(
        step(1, 0, 100),
        step(2, 150, 200),
        launch(1, 10, 12),
        kernel(1, 20, 30),
        launch(2, 160, 161),
        kernel(2, 170, 180),
    )
    assert us(found) == [(1, 0, 100), (2, 150, 200)]


def test_work_that_no_step_launched_delays_the_first_one() -> None:
    found = find(
        host("aten::warm", 0, 20),
        launch(9, 5, 6),
        kernel(9, 30, 115),
        step(1, 100, 200),
        launch(1, 110, 112),
        kernel(1, 120, 210),
    )
    assert us(found) == [(1, 115, 210)]


def test_unknown_work_after_the_first_step_has_begun_on_the_device_delays_nothing() -> None:
    found = find(step(1, 100, 200), launch(1, 110, 112), kernel(1, 120, 130), kernel(77, 125, 190))
    assert us(found) == [(1, 0, 100)]


def test_a_launch_that_a_step_does_not_hold_as_a_whole_is_not_its_own() -> None:
    found = find(
        step(1, 0, 100),
        step(2, 100, 200),
        launch(1, 90, 110),
        kernel(1, 95, 400),
        launch(2, 150, 160),
        kernel(2, 160, 190),
    )
    assert us(found) == [(1, 0, 100), (2, 100, 200)]


def test_a_launch_across_a_boundary_on_another_thread_hides_no_others() -> None:
    """Two sorted lists walked in parallel, as the plugin does, lose the second launch."""
    across = host("cudaStreamSynchronize", 50, 110, "cuda_runtime", tid=2, correlation=8)
    found = find(
        step(1, 0, 100),
        step(2, 100, 200),
        across,
        launch(1, 60, 61),
        kernel(1, 70, 140),
        launch(2, 150, 151),
        kernel(2, 160, 170),
    )
    assert us(found) == [(1, 0, 140), (2, 140, 200)]


def test_driver_calls_launch_as_runtime_calls_do() -> None:
    found = find(step(1, 0, 100), launch(1, 10, 12, "cuda_driver"), kernel(1, 20, 130))
    assert us(found) == [(1, 0, 130)]


def test_steps_after_the_last_that_launched_are_dropped() -> None:
    found = find(step(1, 0, 100), launch(1, 10, 12), kernel(1, 20, 30), step(2, 100, 200), step(3, 200, 300))
    assert us(found) == [(1, 0, 100)]


def test_a_last_step_with_less_than_four_fifths_of_the_launches_was_cut_off() -> None:
    def trace(last: int) -> list[Event]:
        events = [step(1, 0, 100), step(2, 100, 200)]
        for index in range(5 + last):
            at = 10 + index if index < 5 else 110 + index
            events += [launch(index, at, at), kernel(index, at + 1, at + 2)]
        return events

    assert len(find(*trace(last=3)).number) == 1
    assert len(find(*trace(last=4)).number) == 2


def test_without_any_launch_the_annotations_are_the_steps() -> None:
    assert us(find(step(1, 0, 100), step(2, 100, 200), host("aten::mm", 10, 20))) == [
        (1, 0, 100),
        (2, 100, 200),
    ]


def test_annotations_on_streams_are_no_steps() -> None:
    projected = host("ProfilerStep#1", 20, 130, "gpu_user_annotation", tid=7, stream=7, device=0)
    found = find(step(1, 0, 100), projected, launch(1, 10, 12), kernel(1, 20, 130))
    assert us(found) == [(1, 0, 130)]


def test_a_step_that_is_operator_and_annotation_is_one() -> None:
    assert us(find(step(1, 0, 100), step(1, 1, 99, "cpu_op"), step(2, 100, 200))) == [
        (1, 0, 100),
        (2, 100, 200),
    ]


def test_a_number_that_comes_again_later_is_another_step() -> None:
    assert us(find(step(1, 0, 100), step(1, 150, 200))) == [(1, 0, 100), (1, 150, 200)]


def test_a_trace_without_steps_is_one_step_over_its_operators_and_what_they_launched() -> None:
    found = find(
        host("aten::mm", 10, 60),
        launch(1, 20, 22),
        kernel(1, 30, 90),
        host("frame", 0, 500, "python_function"),
    )
    assert us(found) == [(0, 10, 90)]


def test_a_trace_of_annotations_only_is_one_step() -> None:
    found = find(host("nccl:all_reduce", 1686070155939447, 1686070155939518, "user_annotation"))
    assert us(found) == [(0, 0, 71)]


def test_a_trace_of_device_work_only_is_one_step() -> None:
    assert us(find(kernel(1, 10, 20), kernel(2, 30, 45))) == [(0, 0, 35)]


def test_an_empty_trace_has_an_empty_step() -> None:
    assert us(find()) == [(0, 0, 0)]
