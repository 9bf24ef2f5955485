"""How the host feeds the device. Times are microseconds in the events."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures import traces
from laptime.records.tables import Launches
from laptime.trace import view
from laptime.trace.columns import Trace
from laptime.trace.reading import reader
from laptime.trace.tables import launches
from laptime.trace.view import View

Event = dict[str, Any]


def seen(trace: Trace) -> View:
    linked = view.link(trace)
    return View(trace, linked, view.find_steps(trace, linked))


def found(*events: Event) -> Launches:
    step = on("ProfilerStep#1", 0, 200, "user_annotation")
    result = launches.launches(seen(reader.parse(json.dumps({"traceEvents": [step, *events]}).encode())))
    assert result is not None
    return result


def on(name: str, start: float, end: float, cat: str = "cpu_op", **args: Any) -> Event:
    dur = end - start
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": start, "dur": dur, "args": args}


def call(start: float, end: float, id_: int, name: str = "cudaLaunchKernel") -> Event:
    return on(name, start, end, "cuda_runtime", correlation=id_)


def gpu(start: float, end: float, id_: int = 0, cat: str = "kernel", **args: Any) -> Event:
    event = on("k", start, end, cat, device=0, stream=7, correlation=id_, **args)
    return event | {"tid": 7}


def test_delay_is_from_the_end_of_the_call_to_the_start_of_the_work_and_never_negative() -> None:
    result = found(
        call(0, 5, 1), gpu(3, 30, 1), call(10, 20, 2), gpu(30, 50, 2), call(22, 24, 3), gpu(50, 52, 3)
    )
    assert result.launches == 3
    assert result.delay_median_ns == 10_000
    assert result.delay_p95_ns == 26_000
    assert result.host_median_ns == 5_000


def test_short_and_tiny_kernels() -> None:
    result = found(
        call(0, 8, 1), gpu(10, 14, 1), call(20, 22, 2), gpu(30, 35, 2), call(40, 60, 3),
        gpu(70, 71, 3, "gpu_memset"),
    )  # fmt: skip
    assert result.short == 1  # the first; a memset is no kernel
    assert (result.tiny, result.tiny_ns) == (2, 9_000)


def test_the_queue_is_weighted_by_time() -> None:
    # 1 from 0 to 100, another from 50 to 100, none until 200.
    result = found(call(0, 5, 1), call(50, 55, 2), gpu(100, 110, 1), gpu(100, 120, 2))
    assert result.queue_mean == pytest.approx(150 / 200)
    assert result.queue_max == 2
    assert len(result.queue_curve) == 100
    assert result.queue_curve[0] == 1
    assert result.queue_curve[40] == 2
    assert result.queue_curve[60] == 0


def test_work_without_a_launch_is_counted_apart() -> None:
    result = found(gpu(0, 10, 99))
    assert (result.launches, result.unlaunched, result.queue_max) == (0, 1, 0)
    assert result.delay_median_ns == 0


def test_a_graph_has_one_delay_and_no_short_kernels() -> None:
    result = found(
        on("graph", 0, 60),
        call(10, 50, 1, "cudaGraphLaunch"),
        gpu(52, 60, 1), gpu(60, 70, 1), gpu(70, 72, 1),
    )  # fmt: skip
    assert (result.launches, result.graph, result.short) == (1, 3, 0)
    assert result.delay_median_ns == result.delay_p95_ns == 2_000
    (row,) = result.per_operator
    assert (row.operator, row.launches, row.host_ns, row.device_ns) == ("graph", 1, 40_000, 20_000)
    assert row.delay_median_ns == 2_000


def test_operators_with_most_launches_come_first() -> None:
    result = found(
        on("aten::mm", 0, 20), call(1, 9, 1), gpu(12, 14, 1),
        on("aten::add", 20, 60), call(21, 25, 2), gpu(30, 40, 2), call(41, 45, 3), gpu(55, 59, 3),
    )  # fmt: skip
    assert [(row.operator, row.launches, row.host_ns, row.device_ns) for row in result.per_operator] == [
        ("aten::add", 2, 8_000, 14_000),
        ("aten::mm", 1, 8_000, 2_000),
    ]
    assert [row.delay_median_ns for row in result.per_operator] == [5_000, 3_000]
    assert [row.short for row in result.per_operator] == [0, 1]


def test_calls_are_listed_by_their_time() -> None:
    result = found(call(0, 5, 1), call(10, 15, 2), call(20, 60, 3, "cudaEventRecord"), gpu(30, 40, 1))
    assert result.calls == [("cudaEventRecord", 1, 40_000), ("cudaLaunchKernel", 2, 10_000)]


def test_without_an_accelerator_nothing_is_launched() -> None:
    given_ = seen(reader.parse(json.dumps({"traceEvents": [on("aten::mm", 0, 5)]}).encode()))
    assert launches.launches(given_) is None


times = st.lists(st.tuples(st.integers(0, 40), st.integers(-3, 30)), max_size=12)


@given(times, st.integers(0, 30), st.integers(1, 40))
def test_the_queue_agrees_with_counting_at_every_instant(
    work: list[tuple[int, int]], begin: int, length: int
) -> None:
    launched, waits = (np.array([pair[side] for pair in work], np.int64) for side in (0, 1))
    queue = launches._Queue.of(launched, launched + waits)
    counts = [sum(start <= at < start + wait for start, wait in work) for at in range(begin, begin + length)]
    means = queue.means(np.array([begin, begin + length]))
    assert means[0] == pytest.approx(sum(counts) / length)
    assert queue.longest(begin, begin + length) == max(counts)


def test_launch_statistics_are_those_of_holistic_trace_analysis() -> None:
    """HTA leaves out the last step and sums up in whole microseconds (trace_expected.json)."""
    given_ = seen(reader.read(traces.path("resnet50_num_workers_0.json.gz")))
    host, device = given_.trace.host, given_.trace.device
    launch = given_.links.launch
    kept = (launch >= 0) & (host.end[launch] <= given_.steps.host_start[-1])
    calls = launches._calls(given_, np.zeros(len(device), bool))
    early = host.end[calls.row] <= given_.steps.host_start[-1]
    assert kept.sum() == early.sum() == 7580
    assert calls.delay[early].sum() == 81_929_231_000
    assert calls.host_ns[early].sum() == 83_728_000
    shorter = (device.end - device.start) < (host.end - host.start)[launch]
    assert (shorter & kept).sum() == 4793


def test_a_full_queue_is_seen() -> None:
    result = launches.launches(seen(reader.read(traces.path("ns_resolution_v100.json.gz"))))
    assert result is not None
    assert result.queue_max == 1022
    assert result.queue_mean > 800


def test_launches_whose_work_is_not_in_the_file_are_counted_once() -> None:
    rows: list[dict[str, object]] = []
    for number in range(4):
        at = number * 100
        rows.append(
            {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": at,
             "dur": 10, "args": {"correlation": number}}
        )  # fmt: skip
        rows.append(
            {"ph": "X", "cat": "cuda_driver", "name": "cuLaunchKernel", "pid": 1, "tid": 1, "ts": at + 1,
             "dur": 5, "args": {"correlation": number}}
        )  # fmt: skip
    rows.append(
        {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 20, "dur": 5,
         "args": {"correlation": 0}}
    )  # fmt: skip
    rows.append({"ph": "X", "cat": "cpu_op", "name": "all", "pid": 1, "tid": 1, "ts": 0, "dur": 910})
    trace = reader.parse(json.dumps(rows).encode())
    linked = view.link(trace)
    found = launches.launches(View(trace, linked, view.find_steps(trace, linked)))
    assert found is not None
    assert (found.launches, found.lost) == (1, 3)
