"""Named ranges that are no operators, and what was launched in them."""

from __future__ import annotations

import json
from typing import Any

from laptime.records.tables import AnnotationRow
from laptime.trace import view
from laptime.trace.reading import reader
from laptime.trace.tables.operators import list_annotated
from laptime.trace.view import View


def host(name: str, start: float, dur: float, cat: str, tid: int = 1, **args: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": start, "dur": dur, "args": args}


def kernel(start: float, dur: float, correlation: int) -> dict[str, Any]:
    args = {"device": 0, "stream": 7, "correlation": correlation}
    return {
        "ph": "X",
        "cat": "kernel",
        "name": "k",
        "pid": 0,
        "tid": 7,
        "ts": start,
        "dur": dur,
        "args": args,
    }


def rows(events: list[dict[str, Any]]) -> dict[str, AnnotationRow]:
    trace = reader.parse(json.dumps({"traceEvents": events}).encode())
    joined = view.link(trace)
    return {row.name: row for row in list_annotated(View(trace, joined, view.find_steps(trace, joined)))}


EVENTS = [
    host("ProfilerStep#1", 0, 1000, "user_annotation"),
    host("Optimizer.step#SGD.step", 100, 100, "user_annotation"),
    host("aten::add_", 110, 30, "cpu_op"),
    host("cudaLaunchKernel", 115, 10, "cuda_runtime", correlation=1),
    host("aten::add_", 150, 30, "cpu_op"),
    host("cudaLaunchKernel", 155, 10, "cuda_runtime", correlation=2),
    host("aten::mul", 160, 10, "cpu_op", tid=2),
    host("cudaLaunchKernel", 165, 10, "cuda_runtime", tid=2, correlation=3),
    host("mine", 300, 50, "user_annotation"),
    host("mine", 400, 70, "user_annotation"),
    kernel(200, 5, 1),
    kernel(206, 7, 2),
    kernel(220, 100, 3),
]


def test_what_begins_inside_on_the_same_thread_belongs_to_it() -> None:
    found = rows(EVENTS)["Optimizer.step#SGD.step"]
    assert (found.calls, found.operators, found.kernels) == (1, 2, 2)
    assert (found.host_ns, found.device_ns) == (100_000, 12_000)


def test_occurrences_are_summed_and_the_longest_is_kept() -> None:
    found = rows(EVENTS)["mine"]
    assert (found.calls, found.host_ns, found.longest_ns, found.kernels) == (2, 120_000, 70_000, 0)


def test_steps_are_no_annotations_and_the_longest_comes_first() -> None:
    assert list(rows(EVENTS)) == ["mine", "Optimizer.step#SGD.step"]


def test_what_lies_outside_of_the_steps_is_left_out() -> None:
    assert "late" not in rows([*EVENTS, host("late", 5_000, 10, "user_annotation")])


def test_the_oldest_format_files_them_under_operators() -> None:
    old = [
        host("ProfilerStep#1", 0, 100, "Operator"),
        host("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 5, 40, "Operator"),
        host("aten::add", 50, 10, "Operator"),
    ]
    assert list(rows(old)) == ["enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"]


def test_a_trace_without_annotations_has_no_rows() -> None:
    assert rows([host("aten::add", 50, 10, "cpu_op")]) == {}
