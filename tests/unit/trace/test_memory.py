"""Memory: by operator, over time, at the peak."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from fixtures import traces
from laptime.records.tables import LiveAtPeak, Memory, MemoryRow
from laptime.trace.reading import reader
from laptime.trace.tables.memory import memory
from laptime.trace.view import View, find_steps, link


def view(events: list[dict[str, Any]], **top: Any) -> View:
    trace = reader.parse(json.dumps({"traceEvents": events, **top}).encode())
    joined = link(trace)
    return View(trace, joined, find_steps(trace, joined))


def operator(name: str, start: float, dur: float, tid: int = 1) -> dict[str, Any]:
    return {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": tid, "ts": start, "dur": dur}


def event(
    at: float, size: int, address: int | None = None, total: int | None = None, **more: Any
) -> dict[str, Any]:
    args = {"Device Type": 1, "Device Id": 0, "Bytes": size}
    args |= {} if address is None else {"Addr": address}
    args |= {} if total is None else {"Total Allocated": total, "Total Reserved": 4 * total}
    return {
        "ph": "i",
        "cat": "cpu_instant_event",
        "name": "[memory]",
        "pid": 1,
        "tid": 1,
        "ts": at,
        "args": args | more,
    }


def one(*events: dict[str, Any], **top: Any) -> Memory:
    found = memory(view(list(events), **top))
    assert len(found) == 1
    return found[0]


def row(found: Memory, name: str) -> MemoryRow:
    return next(each for each in found.operators if each.operator == name)


def test_bytes_count_for_the_innermost_operator_and_for_all_around_it() -> None:
    found = one(
        operator("aten::linear", 0, 100),
        operator("aten::addmm", 10, 50),
        event(20, 512),
        event(70, 256),
        event(80, -512),
        event(200, 1024),
    )
    assert row(found, "aten::addmm") == MemoryRow(
        operator="aten::addmm",
        calls=1,
        increase=512,
        self_increase=512,
        allocations=1,
        self_allocations=1,
        allocated=512,
        self_allocated=512,
    )
    linear = row(found, "aten::linear")
    assert (linear.increase, linear.self_increase) == (256, -256)
    assert (linear.allocations, linear.self_allocations, linear.allocated, linear.self_allocated) == (
        2,
        1,
        768,
        256,
    )
    assert [each.operator for each in found.operators] == ["aten::linear", "aten::addmm"]


def test_an_operator_inside_one_of_its_own_name_is_not_counted_twice() -> None:
    found = one(
        operator("aten::to", 0, 100),
        operator("aten::to", 1, 90),
        operator("aten::to", 200, 10),
        event(50, 64),
    )
    assert (row(found, "aten::to").allocated, row(found, "aten::to").calls) == (64, 2)


def test_an_operator_owns_what_happens_from_its_start_until_before_its_end() -> None:
    found = one(operator("a", 10, 10), operator("b", 20, 10), event(10, 1), event(20, 2), event(30, 4))
    assert row(found, "a").allocated == 1
    assert row(found, "b").allocated == 2


def test_memory_of_another_thread_is_not_taken_for_that_of_an_operator() -> None:
    found = one(operator("a", 0, 100, tid=2), event(50, 64))
    assert found.operators == []


def test_old_traces_without_addresses_and_totals_have_rows_but_no_peak() -> None:
    found = one(operator("a", 0, 100), event(50, 64))
    assert found.peak is None
    assert found.peak_at_ns is None
    assert found.curve == []
    assert found.live == []
    assert (found.events, found.blocks, found.never_freed, found.freed_only) == (1, 0, 0, 0)


def test_the_peak_lists_what_was_alive_by_operator_and_what_was_there_before() -> None:
    found = one(
        operator("aten::conv2d", 0, 100),
        operator("aten::empty", 10, 10),
        event(15, 1000, 7, 5000),
        event(30, 200, 8, 5200),
        event(40, -200, 8, 5000),
        event(150, 300, 8, 5300),
        event(160, -4000, 9, 1300),
        event(170, -1000, 7, 300),
    )
    assert (found.peak, found.peak_at_ns, found.reserved_peak) == (5300, 150_000, 4 * 5300)
    assert found.live == [
        LiveAtPeak(operator="aten::conv2d (aten::empty)", bytes=1000, blocks=1),
        LiveAtPeak(operator="(no operator)", bytes=300, blocks=1),
    ]
    assert found.unknown_live == 4000
    assert (found.blocks, found.never_freed, found.freed_only) == (2, 1, 1)


def test_an_address_given_out_again_without_a_free_was_freed_in_between() -> None:
    found = one(
        operator("a", 0, 10),
        event(5, 100, 7, 100),
        operator("b", 20, 10),
        event(25, 60, 7, 160),
        event(40, -60, 7, 0),
    )
    assert found.live == [LiveAtPeak(operator="b", bytes=60, blocks=1)]
    assert (found.blocks, found.never_freed) == (1, 1)


def test_devices_are_told_apart_and_named_as_pytorch_does() -> None:
    cpu: dict[str, Any] = event(2, 8)
    cpu["args"] |= {"Device Type": 0, "Device Id": -1}
    hip: dict[str, Any] = event(3, 16)
    hip["args"] |= {"Device Type": 6, "Device Id": 1}
    found = memory(view([operator("a", 0, 10), cpu, hip, event(4, 32)]))
    assert [each.device for each in found] == ["cuda:0", "hip:1", "cpu"]
    assert [row(each, "a").allocated for each in found] == [32, 16, 8]


def test_capacity_is_that_of_the_device() -> None:
    properties = [{"id": 0, "totalGlobalMem": 1 << 34}]
    assert one(event(1, 1, 1, 1), deviceProperties=properties).capacity == 1 << 34


def test_a_long_curve_keeps_its_peak_its_valley_and_its_ends() -> None:
    totals = np.abs(np.random.default_rng(3).integers(0, 10_000, 6000)).tolist()
    totals[1234], totals[4321] = 99_999, -5
    found = one(*(event(at, 1, at, total) for at, total in enumerate(totals)))
    assert 1000 < len(found.curve) <= 2000
    seen = {(point.at_ns, point.allocated) for point in found.curve}
    assert {(1_234_000, 99_999), (4_321_000, -5), (0, totals[0]), (5_999_000, totals[-1])} <= seen
    assert seen <= {(at * 1000, total) for at, total in enumerate(totals)}
    assert [point.at_ns for point in found.curve] == sorted(point.at_ns for point in found.curve)


def test_a_trace_without_memory_events_has_no_memory() -> None:
    assert memory(view([operator("a", 0, 10)])) == []


NAMES = [
    "resnet50_num_workers_0.json.gz",
    "resnet50_num_workers_4.json.gz",
    "h100_bert_small.json.gz",
    "h100_vit.json.gz",
    "plugin_unit/test_memory_view.json",
]


@pytest.mark.parametrize("name", NAMES)
def test_rows_and_peaks_equal_those_of_the_tensorboard_plugin(name: str) -> None:
    trace = reader.read(traces.path(name))
    joined = link(trace)
    found = {
        "CPU" if each.device == "cpu" else f"GPU{each.device[-1]}": each
        for each in memory(View(trace, joined, find_steps(trace, joined)))
    }
    expected = traces.expected()["traces"][name]["expected"]["tb_plugin"]
    compared = 0
    for device, rows in expected["memory_stats_top"].items():
        for operator_name, calls, *numbers in rows:
            got = row(found[device], operator_name)
            assert got.calls == calls
            mine = (
                got.increase / 1024,
                got.self_increase / 1024,
                got.allocations,
                got.self_allocations,
                got.allocated / 1024,
                got.self_allocated / 1024,
            )
            assert mine == pytest.approx(numbers, abs=0.006), operator_name
            compared += 1
    assert compared >= 8
    for device, number in expected["memory_events_count"].items():
        # The plugin leaves out what is outside of every range: one allocation of this trace.
        outside = int((name, device) == ("plugin_unit/test_memory_view.json", "CPU"))
        assert found[device].blocks + found[device].never_freed + found[device].freed_only == number + outside
    for device, peak in expected["peak_memory_bytes"].items():
        assert found["CPU" if "CPU" in device else "GPU0"].peak == peak
