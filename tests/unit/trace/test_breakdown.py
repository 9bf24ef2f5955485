"""Where a step's time goes. Times are microseconds in the events."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fixtures import plugin as plugin_counts
from laptime.records.overview import Breakdown
from laptime.trace.reading import reader
from laptime.trace.tables import overview
from laptime.trace.view import View, find_steps, link

Event = dict[str, Any]
LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def view(*events: Event) -> View:
    trace = reader.parse(json.dumps({"traceEvents": list(events)}).encode())
    linked = link(trace)
    return View(trace, linked, find_steps(trace, linked))


def us(found: Breakdown) -> dict[str, int]:
    """The categories that are not zero, in microseconds."""
    named = {name.removesuffix("_ns"): getattr(found, name) // 1000 for name in overview.CATEGORIES}
    return {name: time for name, time in named.items() if time}


def one(*events: Event) -> dict[str, int]:
    (found,) = overview.breakdown(view(*events))
    return us(found)


def plugin(*events: Event) -> dict[str, int]:
    (found,) = plugin_counts.breakdown(view(*events))
    return us(found)


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


def device(name: str, start: int, end: int, cat: str = "kernel", id_: int = 0) -> Event:
    args = {"device": 0, "stream": 7, "correlation": id_}
    return {
        "ph": "X",
        "cat": cat,
        "name": name,
        "pid": 0,
        "tid": 7,
        "ts": start,
        "dur": end - start,
        "args": args,
    }


STEP = host("ProfilerStep#1", 0, 100, "user_annotation")
EVERYTHING = (
    STEP,
    device("gemm", 10, 30),
    device("Memcpy HtoD (Pageable -> Device)", 20, 40, "gpu_memcpy"),
    device("Memset (Device)", 35, 45, "gpu_memset"),
    device("ncclDevKernel_Generic", 25, 50),
    host("cudaLaunchKernel", 45, 55, "cuda_runtime"),
    host(LOADER, 50, 60, "user_annotation"),
    host("aten::mm", 5, 70),
)


def test_each_category_takes_what_no_earlier_one_has_taken() -> None:
    assert one(*EVERYTHING) == {
        "kernel": 20,
        "memcpy": 10,
        "memset": 5,
        "communication": 5,
        "runtime": 5,
        "dataloader": 5,
        "cpu": 15,
        "other": 35,
    }


def test_the_sum_is_the_step() -> None:
    (found,) = overview.breakdown(view(*EVERYTHING))
    assert found.total_ns == 100_000


def test_a_full_step_leaves_nothing_to_lower_categories() -> None:
    assert one(STEP, device("gemm", 0, 100), host("aten::mm", 10, 30)) == {"kernel": 100}


def test_communication_is_what_kernels_of_any_library_took() -> None:
    assert one(STEP, device("ncclKernel_AllReduce_RING_LL_Sum_float", 10, 30)) == {
        "communication": 20,
        "other": 80,
    }
    assert one(STEP, device("void vllm::cross_device_reduce_1stage()", 10, 30)) == {
        "communication": 20,
        "other": 80,
    }


def test_a_collective_that_only_launches_is_no_communication_on_the_host() -> None:
    nccl = host("nccl:all_reduce", 10, 15, "user_annotation")
    assert one(STEP, nccl, device("ncclDevKernel_AllReduce", 20, 50)) == {
        "communication": 30,
        "cpu": 5,
        "other": 65,
    }
    assert plugin(STEP, nccl, device("ncclDevKernel_AllReduce", 20, 50)) == {
        "kernel": 30,
        "communication": 5,
        "other": 65,
    }


def test_gloo_communicates_on_the_host() -> None:
    assert one(STEP, host("gloo:all_reduce", 10, 30), host("aten::add", 20, 40)) == {
        "communication": 20,
        "cpu": 10,
        "other": 70,
    }
    assert one(STEP, host("gloo:send", 10, 30)) == {"communication": 20, "other": 80}
    assert plugin(STEP, host("gloo:send", 10, 30)) == {"cpu": 20, "other": 80}


def test_driver_calls_are_runtime_and_were_not_for_the_plugin() -> None:
    driver = host("cuLaunchKernelEx", 10, 30, "cuda_driver")
    assert one(STEP, driver) == {"runtime": 20, "other": 80}
    assert plugin(STEP, driver) == {"other": 100}


def test_python_functions_and_the_step_itself_are_not_work() -> None:
    assert one(STEP, host("train.py(3): main", 0, 100, "python_function")) == {"other": 100}


def test_ranges_projected_onto_streams_are_not_work_of_the_host() -> None:
    projected = host("nccl:all_reduce", 10, 30, "gpu_user_annotation", tid=7, device=0, stream=7)
    assert plugin(STEP, projected) == {"other": 100}


def test_what_crosses_a_step_is_divided() -> None:
    events = (
        STEP,
        host("ProfilerStep#2", 100, 150, "user_annotation"),
        host("aten::mm", 90, 120),
        host("aten::late", 140, 500),
    )
    assert [us(each) for each in overview.breakdown(view(*events))] == [
        {"cpu": 10, "other": 90},
        {"cpu": 30, "other": 20},
    ]


@pytest.mark.parametrize("totals", [(10, 11, 13), (1, 1, 1), (0, 0, 1), (0, 0, 2), (1, 2), (7,)])
def test_a_mean_sums_to_the_mean_step(totals: tuple[int, ...]) -> None:
    each = [
        Breakdown(kernel_ns=total // 3, cpu_ns=total // 2, other_ns=total - total // 3 - total // 2)
        for total in totals
    ]
    assert [one.total_ns for one in each] == list(totals)
    found = overview.mean(each)
    assert found.total_ns == int(sum(totals) / len(totals) + 0.5)
    for name in overview.CATEGORIES:
        exact = sum(getattr(one, name) for one in each) / len(each)
        assert abs(getattr(found, name) - exact) < 1, name
