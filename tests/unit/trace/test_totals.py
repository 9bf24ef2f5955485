"""Exact sums and unions over a file."""

from __future__ import annotations

import json
from typing import Any

from laptime.records.overview import Totals
from laptime.trace.reading import reader
from laptime.trace.tables.overview import totals


def device(
    name: str, start: int, end: int, cat: str = "kernel", gpu: int = 0, stream: int = 7
) -> dict[str, Any]:
    args = {"device": gpu, "stream": stream}
    return {
        "ph": "X",
        "cat": cat,
        "name": name,
        "pid": gpu,
        "tid": stream,
        "ts": start,
        "dur": end - start,
        "args": args,
    }


def found(*events: dict[str, Any]) -> Totals:
    return totals(reader.parse(json.dumps({"traceEvents": list(events)}).encode()))


def test_sums_count_twice_what_unions_count_once() -> None:
    assert found(
        device("gemm", 100, 120),
        device("gemm", 110, 130, stream=8),
        device("ncclDevKernel_Generic", 125, 145, stream=9),
        device("rcclKernel", 140, 150, stream=10),
        device("Memcpy DtoH (Device -> Pageable)", 148, 160, "gpu_memcpy"),
        device("Memset (Device)", 155, 165, "gpu_memset"),
        device("late", 190, 200, gpu=1),
    ) == Totals(
        kernels=5,
        communication_kernels=2,
        kernel_names=4,
        compute_sum_ns=50_000,
        compute_union_ns=40_000,
        communication_sum_ns=30_000,
        communication_union_ns=25_000,
        overlap_ns=5_000,
        exposed_communication_ns=20_000,
        memcpy_union_ns=12_000,
        memset_union_ns=10_000,
        exposed_memory_ns=15_000,
        device_span_ns=100_000,
        device_busy_ns=75_000,
        device_idle_ns=25_000,
    )


def test_only_names_with_nccl_or_rccl_are_communication_here() -> None:
    assert found(device("multimem_all_reduce_kernel", 0, 10)).communication_kernels == 0


def test_without_a_device_all_is_zero() -> None:
    assert found() == Totals()
