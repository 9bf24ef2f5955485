"""Critical paths that are known: hand-made steps, whose every instant has its reason."""

from __future__ import annotations

import json
from typing import Any

from laptime.records.tables import CriticalPath
from laptime.trace import profile
from laptime.trace.reading import reader
from laptime.trace.tables import critical_path
from unit.trace.test_operators import event, launch, op, view_of
from unit.trace.test_operators import work as kernel


def path(*events: dict[str, Any], until: int = 200) -> CriticalPath:
    step = event("user_annotation", "ProfilerStep#1", 0, until)
    found = critical_path.critical_path(view_of(step, *events))
    assert found is not None
    assert sum(found.kinds_ns.values()) == sum(row.total_ns for row in found.rows) == found.total_ns
    return found


def kinds(found: CriticalPath) -> dict[str, int]:
    """In us."""
    return {kind: ns // 1000 for kind, ns in found.kinds_ns.items()}


def wait(ts: float, dur: float) -> dict[str, Any]:
    return event("cuda_runtime", "cudaStreamSynchronize", ts, dur, correlation=99)


def on(stream: int, name: str, ts: float, dur: float, correlation: int) -> dict[str, Any]:
    return event("kernel", name, ts, dur, 7, device=0, stream=stream, correlation=correlation)


def test_work_that_is_queued_decides_a_step_that_the_device_bounds() -> None:
    found = path(
        op("aten::mm", 0, 20),
        launch(5, 5, 1),
        op("aten::mm", 20, 20),
        launch(25, 5, 2),
        kernel("gemm", 15, 85, 1),
        kernel("gemm", 102, 148, 2),
    )
    # 5 us of the operator, its launch, 5 us until the kernel begins, both kernels with 2 us between them
    assert kinds(found) == {"kernel": 233, "operator": 5, "launch": 5, "latency": 5, "gap": 2}
    assert found.total_ns == 250_000
    assert (found.rows[0].name, found.rows[0].parts, found.rows[0].longest_ns) == ("gemm", 2, 148_000)


def test_a_slow_host_decides_a_step_whose_kernels_are_short() -> None:
    found = path(
        op("aten::mm", 0, 100),
        launch(5, 5, 1),
        op("aten::add", 100, 100),
        launch(105, 5, 2),
        kernel("gemm", 12, 3, 1),
        kernel("sum", 112, 3, 2),
    )
    assert kinds(found) == {"operator": 190, "launch": 10}
    assert [row.name for row in found.rows] == ["aten::add", "aten::mm", "aten::add", "aten::mm"]


def test_a_wait_for_the_device_goes_on_with_what_it_waited_for() -> None:
    found = path(
        op("aten::mm", 0, 15),
        launch(5, 10, 1),
        kernel("gemm", 20, 100, 1),
        wait(15, 110),
        op("aten::add", 125, 75),
    )
    assert kinds(found) == {"kernel": 100, "operator": 80, "launch": 10, "latency": 5, "synchronisation": 5}


def test_a_call_that_waits_for_nothing_is_the_host() -> None:
    found = path(op("aten::mm", 0, 100), wait(100, 60), op("aten::add", 160, 40), kernel("late", 300, 5, 1))
    assert kinds(found) == {"operator": 140, "synchronisation": 60}


def test_work_waits_for_another_stream() -> None:
    found = path(
        op("aten::mm", 0, 10),
        launch(1, 2, 1),
        launch(4, 2, 2),
        launch(7, 2, 3),
        on(7, "gemm", 10, 90, 1),
        on(20, "ncclKernel_AllReduce", 101, 79, 2),
        on(7, "sum", 183, 37, 3),
    )
    assert kinds(found) == {
        "kernel": 127,
        "communication": 79,
        "latency": 7,
        "gap": 4,
        "launch": 2,
        "operator": 1,
    }


def test_overlapped_communication_is_not_on_the_path() -> None:
    found = path(
        op("aten::mm", 0, 10),
        launch(1, 2, 1),
        launch(4, 2, 2),
        on(7, "gemm", 10, 240, 1),
        on(20, "ncclKernel_AllReduce", 20, 100, 2),
    )
    assert "communication" not in kinds(found)
    assert kinds(found)["kernel"] == 240


def test_a_loop_that_waits_for_another_thread_goes_on_there() -> None:
    found = path(
        op("aten::mm", 0, 40),
        op("aten::mm_backward", 45, 100, 2),
        op("aten::add", 150, 50),
    )
    assert kinds(found) == {"operator": 190, "python": 10}
    assert found.rows[0].name == "aten::mm_backward"


def test_waiting_for_data_is_a_kind_of_its_own() -> None:
    loading = event("user_annotation", "enumerate(DataLoader)#_Iter.__next__", 0, 120)
    found = path(loading, op("aten::stack", 20, 50), op("aten::mm", 120, 80))
    assert kinds(found) == {"data": 120, "operator": 80}


def test_the_line_of_the_longest_part_is_told() -> None:
    found = path(
        op("aten::mm", 0, 100, Call_stack="train.py(3): step;train.py(9): main"), op("aten::mm", 100, 100)
    )
    assert found.rows[0].stack == [] or found.rows[0].stack[0] == "train.py(3): step"
    assert any(row.stack for row in found.rows)


def test_work_of_no_length_and_of_one_instant_ends_the_walk() -> None:
    found = path(
        op("aten::mm", 0, 200), launch(5, 5, 1), kernel("a", 10, 0, 1), kernel("b", 10, 0, 1), wait(10, 5)
    )
    assert found.total_ns == 200_000


def test_a_file_without_work_has_no_path() -> None:
    trace = reader.parse(json.dumps([event("python_function", "train.py(1): main", 0, 5)]).encode())
    assert critical_path.critical_path(profile.view(trace)) is None
