"""The first page and the rows of steps. Times are microseconds in the events."""

from __future__ import annotations

import json
from typing import Any

from laptime.trace.reading import reader
from laptime.trace.tables.overview import overview, step_rows
from laptime.trace.view import View, find_steps, link

Event = dict[str, Any]
LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def view(*events: Event) -> View:
    trace = reader.parse(json.dumps({"traceEvents": list(events)}).encode())
    linked = link(trace)
    return View(trace, linked, find_steps(trace, linked))


def host(name: str, start: int, end: int, cat: str = "user_annotation", **args: Any) -> Event:
    return {
        "ph": "X",
        "cat": cat,
        "name": name,
        "pid": 1,
        "tid": 1,
        "ts": start,
        "dur": end - start,
        "args": args,
    }


def kernel(start: int, end: int, id_: int) -> Event:
    args = {"device": 0, "stream": 7, "correlation": id_}
    times = {"ts": start, "dur": end - start}
    return {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "args": args} | times


EVENTS = (
    host("ProfilerStep#3", 0, 100),
    host(LOADER, 0, 30),
    host("cudaLaunchKernel", 40, 50, "cuda_runtime", correlation=1),
    kernel(60, 120, 1),
    host("ProfilerStep#4", 100, 171),
    host(LOADER, 100, 110),
    host("cudaLaunchKernel", 130, 140, "cuda_runtime", correlation=2),
    kernel(145, 150, 2),
)


def test_a_row_tells_host_and_device_apart() -> None:
    first, second = step_rows(view(*EVENTS))
    assert (first.number, first.start_ns, first.end_ns) == (3, 0, 120_000)
    assert (first.host_start_ns, first.host_end_ns) == (0, 100_000)
    assert first.device_busy_ns == 60_000
    assert (second.number, second.start_ns, second.end_ns) == (4, 120_000, 171_000)
    assert second.device_busy_ns == 5_000


def test_waiting_for_data_counts_whatever_the_device_does() -> None:
    first, second = step_rows(view(*EVENTS))
    assert first.breakdown.dataloader_ns == 30_000
    assert first.data_wait_ns == 40_000
    assert (second.breakdown.dataloader_ns, second.data_wait_ns) == (0, 0)


def test_the_mean_sums_to_its_parts_and_the_median_is_of_steps() -> None:
    found = overview(view(*EVENTS))
    assert found.steps == 2
    assert found.step_ns == found.breakdown.total_ns == 85_500
    assert found.step_median_ns == 85_500
    assert found.breakdown.kernel_ns == 32_500


def test_idle_time_is_what_the_device_leaves() -> None:
    found = overview(view(*EVENTS))
    (device,) = found.devices
    assert found.idle is not None
    assert found.idle.total_ns == device.idle_ns == 106_000
    assert sum(cause.total_ns for cause in found.idle.causes) == found.idle.total_ns


def test_rows_that_are_known_are_not_made_again() -> None:
    seen = view(*EVENTS)
    assert overview(seen, step_rows(seen)) == overview(seen)


def test_an_empty_trace_has_an_empty_page() -> None:
    found = overview(view())
    assert (found.steps, found.step_ns, found.devices, found.idle) == (1, 0, [], None)
