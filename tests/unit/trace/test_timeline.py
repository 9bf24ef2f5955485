"""One step as lanes to be drawn."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fixtures import traces
from laptime.records.tables import Lane, Timeline
from laptime.trace.reading import reader
from laptime.trace.tables.timeline import device_type, timeline, typical
from laptime.trace.view import Steps, View, find_steps, link
from laptime.verbs.trace import trace


def view(events: list[dict[str, Any]]) -> View:
    trace = reader.parse(json.dumps({"traceEvents": events}).encode())
    joined = link(trace)
    return View(trace, joined, find_steps(trace, joined))


def host(
    name: str, start: float, dur: float, cat: str = "cpu_op", tid: int = 1, **args: Any
) -> dict[str, Any]:
    return {
        "ph": "X",
        "cat": cat,
        "name": name,
        "pid": 1,
        "tid": tid,
        "ts": start,
        "dur": dur,
        "args": args,
    }


def kernel(name: str, start: float, dur: float, correlation: int, cat: str = "kernel") -> dict[str, Any]:
    args = {"device": 0, "stream": 7, "correlation": correlation}
    return {"ph": "X", "cat": cat, "name": name, "pid": 0, "tid": 7, "ts": start, "dur": dur, "args": args}


STEP = [
    host("ProfilerStep#3", 0, 1000, "user_annotation"),
    host("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 10, 90, "user_annotation"),
    host("aten::mm", 100, 50),
    host("cudaLaunchKernel", 110, 20, "cuda_runtime", correlation=5),
    host("train.py(3): main", 5, 900, "python_function", **{"Python id": 1}),
    host("aten::add", 300, 10, tid=2),
    kernel("gemm", 400, 200, 5),
    kernel("ncclDevKernel_AllReduce", 700, 100, 6),
    kernel("Memcpy HtoD", 820, 10, 7, "gpu_memcpy"),
]


def made(view: View, **budget: Any) -> Timeline:
    found = timeline(view, **budget)
    assert found is not None
    return found


def rows(found: Timeline, lane: Lane) -> list[tuple[str, int, int, int, str]]:
    return [
        (found.names[name], start, dur, depth, found.categories[category])
        for name, start, dur, depth, category in zip(
            lane.name_index, lane.start_ns, lane.dur_ns, lane.depth, lane.category, strict=True
        )
    ]


def test_threads_and_streams_are_lanes_with_times_since_the_start_of_the_step() -> None:
    found = made(view(STEP))
    assert (found.step, found.dur_ns, found.dropped) == (3, 1_000_000, 0)
    assert [(lane.kind, lane.name) for lane in found.lanes] == [
        ("host", "thread 1"),
        ("host", "thread 2"),
        ("device", "cuda:0 stream 7"),
    ]
    assert rows(found, found.lanes[0]) == [
        ("ProfilerStep#3", 0, 1_000_000, 0, "annotation"),
        ("train.py(3): main", 5_000, 900_000, 1, "python"),
        ("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 10_000, 90_000, 2, "data"),
        ("aten::mm", 100_000, 50_000, 2, "operator"),
        ("cudaLaunchKernel", 110_000, 20_000, 3, "runtime"),
    ]
    assert rows(found, found.lanes[2]) == [
        ("gemm", 400_000, 200_000, 0, "kernel"),
        ("ncclDevKernel_AllReduce", 700_000, 100_000, 0, "communication"),
        ("Memcpy HtoD", 820_000, 10_000, 0, "memcpy"),
    ]


def test_arrows_go_from_a_launch_to_its_kernel() -> None:
    assert made(view(STEP)).arrows == [(0, 4, 2, 0)]
    assert made(view(STEP), arrows=0).arrows == []


def test_python_functions_go_first_then_the_shortest() -> None:
    without = made(view(STEP), ranges=8)
    assert without.dropped == 1
    assert "train.py(3): main" not in without.names
    few = made(view(STEP), ranges=3)
    assert sorted(few.names) == ["ProfilerStep#3", "gemm", "ncclDevKernel_AllReduce"]
    assert few.dropped == 6
    assert few.arrows == []


def test_what_reaches_over_the_ends_of_the_step_is_cut() -> None:
    events = [host(f"ProfilerStep#{n}", 100 * n, 100, "user_annotation") for n in (1, 2)]
    found = made(view([*events, host("whole", 0, 1000, tid=2)]))
    assert found.step == 2
    assert rows(found, found.lanes[1]) == [("whole", 0, 100_000, 0, "operator")]


def test_the_step_nearest_the_median_is_drawn_and_never_the_first_of_several() -> None:
    def of(*spent: int) -> int:
        end = np.cumsum(spent, dtype=np.int64)
        start = end - spent
        return typical(Steps(np.arange(len(spent)), start, end, start, end))

    assert of(50) == 0
    assert of(50, 900) == 1
    assert of(60, 100, 50, 61) == 3


def test_the_kind_of_device_is_told_by_its_memory_events_and_calls() -> None:
    assert device_type(view([host("a", 0, 1)]).trace) == "cpu"
    assert (
        device_type(view([host("hipLaunchKernel", 0, 1, "cuda_runtime"), kernel("k", 1, 1, 1)]).trace)
        == "hip"
    )
    assert device_type(view([kernel("k", 1, 1, 1)]).trace) == "cuda"


@pytest.mark.parametrize("name", traces.names())
def test_every_real_trace_has_a_timeline_inside_its_step(name: str) -> None:
    trace = reader.read(traces.path(name))
    joined = link(trace)
    found = made(View(trace, joined, find_steps(trace, joined)))
    for lane in found.lanes:
        assert min(lane.start_ns) >= 0
        assert max(a + b for a, b in zip(lane.start_ns, lane.dur_ns, strict=True)) <= found.dur_ns
        assert max(lane.name_index) < len(found.names)
    for source, row, target, work in found.arrows:
        assert (found.lanes[source].kind, found.lanes[target].kind) == ("host", "device")
        assert found.categories[found.lanes[source].category[row]] == "runtime"
        assert work < len(found.lanes[target].start_ns)


def test_gaps_of_the_device_fill_what_its_kernels_leave_free_and_name_their_cause() -> None:
    profile = trace([Path(__file__).parents[2] / "data/traces/h100_bert_small.json.gz"]).profile
    assert profile is not None
    assert profile.overview.idle is not None
    assert profile.timeline is not None
    found = profile.timeline
    (gaps,) = [lane for lane in found.lanes if lane.kind == "idle"]
    assert gaps.name == "cuda:0 idle"
    assert sum(gaps.dur_ns) == profile.overview.idle.total_ns  # one step: every gap of it is drawn
    by_cause = {each.cause: each.total_ns for each in profile.overview.idle.causes if each.total_ns}
    drawn: dict[str, int] = {}
    for _, _, ns, _, category in rows(found, gaps):
        drawn[category.removeprefix("idle-")] = drawn.get(category.removeprefix("idle-"), 0) + ns
    assert drawn == by_cause
    for lane in (lane for lane in found.lanes if lane.kind == "device"):
        for start, ns in zip(lane.start_ns, lane.dur_ns, strict=True):
            assert not any(a < start + ns and start < a + b for _, a, b, _, _ in rows(found, gaps))
