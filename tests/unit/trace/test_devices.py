"""Use of each accelerator in the window of all steps. Times are microseconds in the events."""

from __future__ import annotations

import json
from typing import Any

import pytest

from laptime.records.overview import DeviceUse
from laptime.trace import profile, view
from laptime.trace.reading import reader
from laptime.trace.tables import overview
from laptime.trace.view import View

Event = dict[str, Any]


def use(*events: Event) -> list[DeviceUse]:
    trace = reader.parse(json.dumps({"traceEvents": list(events)}).encode())
    linked = view.link(trace)
    return overview.use(View(trace, linked, view.find_steps(trace, linked)))


def host(name: str, start: int, end: int, cat: str = "cpu_op", **args: Any) -> Event:
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


def device(
    name: str, start: int, end: int, cat: str = "kernel", /, *, gpu: int = 0, id_: int = 0, **args: Any
) -> Event:
    args = {"device": gpu, "stream": 7, "correlation": id_} | {
        key.replace("_", " "): args[key] for key in args
    }
    return {
        "ph": "X",
        "cat": cat,
        "name": name,
        "pid": gpu,
        "tid": 7,
        "ts": start,
        "dur": end - start,
        "args": args,
    }


def launched(operator: str, kernel: str, at: int, length: int, id_: int) -> list[Event]:
    """An operator of 10 us that launches a kernel which runs later."""
    return [
        host(operator, at, at + 10),
        host("cudaLaunchKernel", at + 2, at + 4, "cuda_runtime", correlation=id_),
        device(kernel, at + 5, at + 5 + length, id_=id_),
    ]


STEP = host("ProfilerStep#1", 0, 1000, "user_annotation")


def test_utilisation_counts_kernels_once_and_busy_counts_copies_too() -> None:
    (found,) = use(
        STEP,
        device("a", 0, 300),
        device("b", 200, 400),
        device("Memcpy HtoD", 350, 500, "gpu_memcpy"),
        device("Memset", 490, 510, "gpu_memset"),
    )
    assert found.utilization == 0.4
    assert found.busy == 0.51
    assert found.idle_ns == 490_000
    assert (found.compute_ns, found.memcpy_ns, found.memset_ns) == (400_000, 150_000, 20_000)
    assert found.exposed_copy_ns == 110_000


def test_only_the_window_counts() -> None:
    (found,) = use(
        host("ProfilerStep#1", 100, 200, "user_annotation"), device("a", 0, 150), device("a", 190, 900)
    )
    assert found.utilization == 0.6
    assert found.compute_ns == 60_000


def test_communication_is_exposed_where_nothing_computes() -> None:
    (found,) = use(STEP, device("gemm", 0, 300), device("ncclDevKernel_Generic", 200, 600))
    assert found.communication_ns == 400_000
    assert found.overlapped_communication_ns == 100_000
    assert found.exposed_communication_ns == 300_000
    assert found.utilization == 0.6


def test_a_copy_under_any_kernel_is_hidden() -> None:
    (found,) = use(
        STEP, device("ncclDevKernel_Generic", 0, 300), device("Memcpy HtoD", 100, 400, "gpu_memcpy")
    )
    assert found.exposed_copy_ns == 100_000


def test_every_accelerator_that_worked_has_a_row() -> None:
    found = use(STEP, device("a", 0, 500, gpu=1), device("a", 0, 250, gpu=3), device("a", 2000, 2500, gpu=5))
    assert [(each.device, each.utilization) for each in found] == [(1, 0.5), (3, 0.25)]


def test_sm_efficiency_adds_up_running_kernels_up_to_one() -> None:
    (found,) = use(
        STEP,
        device("a", 0, 400, blocks_per_SM=0.5),
        device("b", 200, 600, blocks_per_SM=0.75),
        device("c", 600, 700),
        device("d", 700, 800, blocks_per_SM=0),
    )
    assert found.sm_efficiency == pytest.approx((200 * 0.5 + 200 * 1 + 200 * 0.75) / 1000)


def test_occupancy_is_weighted_by_time() -> None:
    (found,) = use(
        STEP,
        device("a", 0, 300, **{"est. achieved occupancy %": 50}),
        device("b", 300, 400, **{"est. achieved occupancy %": 10}),
        device("c", 400, 900),
    )
    assert found.occupancy == pytest.approx(0.4)


def test_an_occupancy_of_0_is_no_estimate() -> None:
    (found,) = use(STEP, device("a", 0, 300, **{"est. achieved occupancy %": 0, "blocks per SM": 0}))
    assert found.occupancy is None
    assert found.sm_efficiency is None


def test_what_kernels_do_not_say_is_unknown_and_not_zero() -> None:
    (found,) = use(STEP, device("Memcpy HtoD", 0, 100, "gpu_memcpy"))
    assert found.sm_efficiency is None
    assert found.occupancy is None
    assert found.tensor_core_share is None
    assert found.tensor_core_eligible is None


def test_tensor_cores_are_a_share_of_what_computes() -> None:
    (found,) = use(
        STEP,
        device("nvjet_hsh", 0, 100),
        device("volta_sgemm", 100, 400),
        device("ncclDevKernel_Generic", 400, 900),
    )
    assert found.tensor_core_share == 0.25


def test_eligible_is_what_operators_launched_that_could_use_tensor_cores() -> None:
    (found,) = use(
        STEP,
        *launched("aten::mm", "volta_sgemm", 100, 30, 1),
        *launched("aten::add", "elementwise", 200, 10, 2),
        *launched("aten::my_attention", "flash_fwd_kernel", 300, 60, 3),
    )
    assert found.tensor_core_eligible == 0.9


def test_only_the_innermost_eligible_operator_counts() -> None:
    """conv2d adds a bias with a kernel of its own, which could not use tensor cores."""
    (found,) = use(
        STEP,
        host("aten::conv2d", 50, 400),
        *launched("aten::cudnn_convolution", "implicit_convolve_sgemm", 100, 30, 1),
        host("cudaLaunchKernel", 200, 210, "cuda_runtime", correlation=2),
        device("bias", 300, 310, id_=2),
    )
    assert found.tensor_core_eligible == 0.75


def test_driver_launches_are_attributed() -> None:
    (found,) = use(
        STEP,
        host("aten::mm", 100, 110),
        host("cuLaunchKernelEx", 102, 104, "cuda_driver", correlation=1),
        device("nvjet_hsh", 110, 150, id_=1),
    )
    assert found.tensor_core_eligible == 1


def test_the_curve_is_the_busy_share_of_equal_parts() -> None:
    (found,) = use(STEP, device("a", 0, 105), device("b", 990, 5000))
    assert len(found.busy_curve) == overview.BUCKETS
    assert found.busy_curve[:12] == [1.0] * 10 + [0.5, 0.0]
    assert found.busy_curve[-1] == 1.0


def test_a_window_without_length_has_no_devices() -> None:
    assert use() == []


def test_mtia_is_no_cuda_and_waiting_on_a_stream_is_no_work() -> None:
    events = [
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 0, "dur": 100},
        {"ph": "X", "cat": "mtia_runtime", "name": "runFunction - job_prep_and_submit", "pid": 1, "tid": 1,
         "ts": 1, "dur": 5, "args": {"correlation": 1}},
        {"ph": "X", "cat": "mtia_ccp_events", "name": "fbgemm_mm", "pid": 0, "tid": 3, "ts": 10, "dur": 20,
         "args": {"correlation": 1, "device": 0, "stream": 3}},
        {"ph": "X", "cat": "mtia_ccp_events", "name": "event_wait", "pid": 0, "tid": 4, "ts": 30, "dur": 60,
         "args": {"device": 0, "stream": 4}},
    ]  # fmt: skip
    found = profile.profile(profile.view(reader.parse(json.dumps(events).encode())))
    assert found.device_type == "mtia"
    assert found.overview.totals.compute_sum_ns == 20_000
    assert [row.name for row in found.kernels] == ["fbgemm_mm"]
