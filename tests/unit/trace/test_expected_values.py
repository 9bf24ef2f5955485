"""Shared traces against values that others computed: the TensorBoard plugin (its last source) and a script
independent of all. Where they are wrong, the truth stands here with the reason.
"""

from __future__ import annotations

import gzip
import json
from decimal import Decimal
from functools import cache
from typing import Any

import numpy as np
import pytest

from fixtures import plugin as plugin_counts
from fixtures import traces
from laptime.trace import intervals, names
from laptime.trace.columns import DeviceKind, HostKind, Mask
from laptime.trace.reading import reader
from laptime.trace.tables import overview
from laptime.trace.tables.overview import totals
from laptime.trace.view import View, find_steps, link

TRACES: dict[str, Any] = traces.expected()["traces"]

PLUGIN = {
    name: each["expected"]["tb_plugin"] for name, each in TRACES.items() if "tb_plugin" in each["expected"]
}
EXACT = {
    name: each["expected"]["independent_exact"]
    for name, each in TRACES.items()
    if "independent_exact" in each["expected"]
}
CATEGORIES = dict(
    zip(
        ("Kernel", "Memcpy", "Memset", "Communication", "Runtime", "DataLoader", "CPU Exec", "Other"),
        overview.CATEGORIES,
        strict=True,
    )
)


@cache
def view(name: str) -> View:
    trace = reader.read(traces.path(name))
    linked = link(trace)
    return View(trace, linked, find_steps(trace, linked))


# --- the plugin's breakdown -------------------------------------------------------------------------------

ROUNDING = 1.0
"""us: the plugin keeps whole microseconds where the file does."""
BLURRED = {"ns_resolution_v100.json.gz": 8.0}
"""us: its times are 1.7e15 us, where neighbouring float64 are 0.25 us apart, and a step has 900 of them."""

FULL = (
    "once a step is full the plugin counts lower categories as if nothing were taken; parts exceed the step"
)
PROJECTED = "the plugin takes nccl:* ranges projected onto streams for work of the host"
WRONG_PARTS: dict[str, tuple[str, dict[str, dict[str, float]]]] = {
    "plugin_unit/test_datapipe.json": (FULL, {"0": {"Other": 0}}),
    "plugin_unit/test_distributed_nccl_1.json": (FULL, {"0": {"CPU Exec": 0, "Other": 0}}),
    "plugin_unit/test_distributed_nccl_user_annotation_has_communication.json": (
        "annotations give the plugin no time at all: a step of -18446744073709551615 us",
        {"0": {"Communication": 71, "Total": 71}},
    ),
    "nccl_a100.json.gz": (
        PROJECTED,
        {
            "4": {"Communication": 353.043, "CPU Exec": 162258.079},
            "5": {"Communication": 308.183, "CPU Exec": 159372.818},
            "6": {"Communication": 369.805, "CPU Exec": 156134.587},
        },
    ),
}


@pytest.mark.parametrize("name", PLUGIN)
def test_breakdown_and_steps_are_the_plugins_where_it_is_right(name: str) -> None:
    _, truth = WRONG_PARTS.get(name, ("", {}))
    found = plugin_counts.breakdown(view(name))
    expected = {step: parts | truth.get(step, {}) for step, parts in PLUGIN[name]["steps"].items()}
    assert view(name).steps.number.tolist() == [int(step) for step in expected]
    tolerance = BLURRED.get(name, ROUNDING)
    for parts, ours in zip(expected.values(), found, strict=True):
        for category, field in CATEGORIES.items():
            assert getattr(ours, field) / 1000 == pytest.approx(parts[category], abs=tolerance), category
        assert ours.total_ns / 1000 == pytest.approx(parts["Total"], abs=tolerance)
    mean = overview.mean(found)
    for category, field in CATEGORIES.items():
        average = sum(parts[category] for parts in expected.values()) / len(expected)
        assert getattr(mean, field) / 1000 == pytest.approx(average, abs=tolerance), category
        if not truth:
            assert average == pytest.approx(PLUGIN[name]["avg_step_us"][category], abs=1e-6)


@pytest.mark.parametrize("name", WRONG_PARTS)
def test_the_plugin_is_still_wrong_where_we_say_so(name: str) -> None:
    traces.path(name)
    for step, truth in WRONG_PARTS[name][1].items():
        for category, value in truth.items():
            assert abs(PLUGIN[name]["steps"][step][category] - value) > ROUNDING


def test_the_plugins_excess_is_the_projected_ranges() -> None:
    """Its Communication of nccl_a100 comes out when ranges on streams are added to those on the host."""
    seen = view("nccl_a100.json.gz")
    trace = seen.trace
    host = names.rows(trace.texts, trace.host.name, plugin_counts.is_collective)
    device = names.rows(trace.texts, trace.device_ranges.name, plugin_counts.is_collective)
    ranges = intervals.join(
        intervals.union(trace.host.start[host], trace.host.end[host]),
        intervals.union(trace.device_ranges.start[device], trace.device_ranges.end[device]),
    )
    left = intervals.subtract(ranges, intervals.union(trace.device.start, trace.device.end))
    expected = [parts["Communication"] for parts in PLUGIN["nccl_a100.json.gz"]["steps"].values()]
    assert (overview.cover_steps(left, seen.steps) / 1000).tolist() == pytest.approx(expected, abs=0.1)


# --- the plugin's GPU summary -----------------------------------------------------------------------------

FLOATS = 2e-4
"""relative: the plugin computes in float64 microseconds since the epoch."""


def near(found: float | None, expected: float | None) -> bool:
    if found is None or expected is None:
        return found is expected
    return found == pytest.approx(expected, rel=FLOATS)


LINK = "the plugin links by External id, which this file fills with other numbers"
STRANGE_THREAD = (
    "launches lie on a thread where no operator runs; only the External id, refused here, ties them"
)
EDGE = "launches of no length at an operator's edge: only the External id, refused here, tells whose they are"
WRONG_GPU: dict[str, tuple[str, dict[str, dict[str, float | None]]]] = {
    "dlrm_8_ranks/worker0_step_12.1694128201545.pt.trace.json.gz": (LINK, {"0": {"tc_ratio": 0.0}}),
    "plugin_unit/test_gpu_utilization_kernel_out_of_step.json": (
        "no kernel runs in the window: the device has no row",
        {"1": {}},
    ),
    "plugin_unit/test_group_by_kernel_columns_invalid_input.json": (
        STRANGE_THREAD,
        {"0": {"tc_ratio": None}},
    ),
    "plugin_unit/test_memory_view.json": (STRANGE_THREAD, {"0": {"tc_ratio": None}}),
    "plugin_unit/test_runtime_called_by_profilerstep.json": (
        "in this old file ProfilerStep is an operator, and it launched the kernel",
        {"1": {}, "0": {"tc_ratio": 0.0}},
    ),
    "plugin_unit/test_multiple_profilersteps_no_overlap.json": (
        "the plugin's window is 255 us from the first step to the last, its two steps are 240 us of it",
        {"0": {"gpu_utilization": 100 / 240}},
    ),
}
WRONG_ELIGIBLE = {
    "dlrm_8_ranks/worker0_step_12.1694128201545.pt.trace.json.gz": (LINK, 0.02986),
    "plugin_unit/test_external_id.json": (EDGE, 11 / 26),
    "plugin_unit/test_gpu_utilization.json": (EDGE, 50 / 70),
}


def by_runtime(seen: View) -> Mask:
    """Device rows that the plugin could attribute: launched by a runtime call inside an operator."""
    launch = np.maximum(seen.links.launch, 0)
    if not len(seen.trace.host):
        return np.zeros(len(launch), bool)
    return (seen.links.operator >= 0) & (seen.trace.host.kind[launch] == HostKind.RUNTIME)


def share(seen: View, part: Mask, whole: Mask) -> float | None:
    length = seen.trace.device.end - seen.trace.device.start
    total = int(length[whole].sum())
    return float(length[part & whole].sum() / total) if total else None


@pytest.mark.parametrize("name", PLUGIN)
def test_the_gpu_summary_is_the_plugins_where_it_is_right(name: str) -> None:
    seen = view(name)
    device = seen.trace.device
    matrix = names.rows(seen.trace.texts, device.name, plugin_counts.uses_tensor_cores)
    own = by_runtime(seen) & (device.kind == DeviceKind.KERNEL)
    rows = {str(row.device): row for row in overview.use(seen)}
    _, truth = WRONG_GPU.get(name, ("", {}))
    without_work = {gpu for gpu, raw in PLUGIN[name]["gpu_raw"].items() if raw["gpu_utilization"] == 0}
    assert set(rows) == set(PLUGIN[name]["gpu_raw"]) - without_work
    for gpu, row in rows.items():
        raw = PLUGIN[name]["gpu_raw"][gpu] | truth.get(gpu, {})
        assert near(row.utilization, raw["gpu_utilization"])
        assert near(row.sm_efficiency, raw["est_sm_efficiency"])
        percent = None if row.occupancy is None else row.occupancy * 100
        assert near(percent, raw["est_achieved_occupancy"] or None)  # 0 % of no estimate
        ratio = share(seen, matrix, own & (device.device == int(gpu)))
        assert near(ratio, raw["tc_ratio"])


@pytest.mark.parametrize("name", PLUGIN)
def test_tensor_core_ratios_are_the_plugins_where_it_is_right(name: str) -> None:
    seen = view(name)
    kernel = seen.trace.device.kind == DeviceKind.KERNEL
    matrix = names.rows(seen.trace.texts, seen.trace.device.name, plugin_counts.uses_tensor_cores)
    assert near(share(seen, matrix, kernel), PLUGIN[name]["tc_used_ratio_kernel_view"])
    own = by_runtime(seen)
    found = (
        share(seen, overview.eligible(seen, matrix & own, names.is_tensor_core_eligible_plugin), own & kernel)
        or 0.0
    )
    _, truth = WRONG_ELIGIBLE.get(name, ("", PLUGIN[name]["tc_eligible_ops_kernel_ratio"]))
    assert found == pytest.approx(truth, rel=FLOATS, abs=1e-5)


@pytest.mark.parametrize(
    ("name", "uses", "plugin", "eligible"),
    [
        ("nccl_a100.json.gz", 0.3338, 0.1638, 0.4871),
        ("h100_bert_small.json.gz", 0.7650, 0.2319, 0.7650),
        ("h100_vit.json.gz", 0.7831, 0.5242, 0.8020),
        ("edge/mi250_toy.json.gz", 0.2727, 0.0, 0.3348),
        ("mi300_vit.json.gz", 0.7849, None, 0.7944),
    ],
)
def test_tensor_cores_that_the_plugin_missed(
    name: str, uses: float, plugin: float | None, eligible: float
) -> None:
    """Flash attention, wmma, xmma_fprop and matrix cores count, and so do driver launches; collectives are in
    no denominator.
    """
    (row,) = overview.use(view(name))
    assert row.tensor_core_share == pytest.approx(uses, abs=5e-4)
    assert row.tensor_core_eligible == pytest.approx(eligible, abs=5e-4)
    if plugin is not None:
        (raw,) = PLUGIN[name]["gpu_raw"].values()
        assert raw["tc_ratio"] == pytest.approx(plugin, abs=1e-4)


# --- communication ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "ms"),
    [("nccl_a100.json.gz", 15.6), ("dlrm_8_ranks/worker1_step_12.1694128201556.pt.trace.json.gz", 11.3)],
)
def test_communication_is_what_nccl_really_took(name: str, ms: float) -> None:
    """The plugin has 0.35 and 0.06 ms: it counts host ranges that only launch."""
    (row,) = overview.use(view(name))
    assert row.communication_ns / len(view(name).steps.number) / 1e6 == pytest.approx(ms, abs=0.06)
    plugin = overview.mean(plugin_counts.breakdown(view(name))).communication_ns
    assert plugin / 1e6 < 0.4


def test_every_rank_of_a_job_has_the_plugins_utilisation() -> None:
    """The plugin's values for ranks 0 to 7, in percent."""
    ranks = sorted(f"dlrm_8_ranks/{path.name}" for path in traces.path("dlrm_8_ranks").iterdir())
    found = [overview.use(view(name))[0].utilization * 100 for name in ranks]
    assert found == pytest.approx([45.46, 65.14, 32.92, 56.19, 42.69, 40.75, 33.15, 21.10], abs=0.005)


# --- exact totals -----------------------------------------------------------------------------------------

UNIONS = {
    "compute_sum_us": "compute_sum_ns",
    "compute_union_us": "compute_union_ns",
    "comm_sum_us": "communication_sum_ns",
    "comm_union_us": "communication_union_ns",
    "compute_comm_overlap_us": "overlap_ns",
    "exposed_comm_us": "exposed_communication_ns",
    "memcpy_union_us": "memcpy_union_ns",
    "memset_union_us": "memset_union_ns",
    "exposed_mem_us (not under kernels)": "exposed_memory_ns",
    "gpu_busy_us": "device_busy_ns",
}
SPANS = {"gpu_span_us": "device_span_ns", "gpu_idle_in_span_us": "device_idle_ns"}
FLOAT_SPAN = {"ns_resolution_v100.json.gz": 36, "nccl_a100.json.gz": 1}
"""ns by which the script's span is too long: it subtracted clocks in float64, though it added exactly."""


@pytest.mark.parametrize("name", EXACT)
def test_totals_are_exact_to_the_nanosecond(name: str) -> None:
    found, exact = totals(view(name).trace), EXACT[name]
    assert found.kernels - found.communication_kernels == exact["kernels"]
    assert found.communication_kernels == exact["comm_kernels"]
    assert found.kernel_names == exact["distinct_kernel_names"]
    for key, field in UNIONS.items():
        assert getattr(found, field) == round(exact[key] * 1000), key
    for key, field in SPANS.items():
        assert getattr(found, field) == round(exact[key] * 1000) - FLOAT_SPAN.get(name, 0), key


@pytest.mark.parametrize("name", FLOAT_SPAN)
def test_spans_are_those_of_decimal_arithmetic(name: str) -> None:
    text = gzip.decompress((traces.path(name)).read_bytes())
    events = json.loads(text, parse_float=Decimal, parse_int=Decimal, strict=False)["traceEvents"]
    work = [each for each in events if each.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
    span = max(each["ts"] + each["dur"] for each in work) - min(each["ts"] for each in work)
    assert totals(view(name).trace).device_span_ns == span * 1000
