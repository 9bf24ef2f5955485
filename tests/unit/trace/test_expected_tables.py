"""Operator, kernel and module tables of the shared traces, beside the TensorBoard plugin's and TraceLens'.

Where they differ from the plugin, WRONG has what is true and why. A difference that is not in it fails, and
so does one of it that has vanished.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from functools import cache
from typing import Any, TypeVar

import numpy as np
import pytest

from fixtures import traces
from laptime.records.tables import KernelRow, ModuleRow, OperatorRow
from laptime.trace import names
from laptime.trace.columns import DeviceKind, DeviceWork, Host, Trace
from laptime.trace.reading import reader
from laptime.trace.tables import kernels, modules, operators, overview
from laptime.trace.view import View, find_steps, link

TRACES: dict[str, Any] = traces.expected()["traces"]

PLUGIN = {
    name: each["expected"]["tb_plugin"] for name, each in TRACES.items() if each["expected"].get("tb_plugin")
}
TRACELENS = {
    name: each["expected"]["tracelens_golden"]
    for name, each in TRACES.items()
    if each["expected"].get("tracelens_golden")
}
Columns = TypeVar("Columns", Host, DeviceWork)
Difference = tuple[str, Any]


def view_of(trace: Trace) -> View:
    linked = link(trace)
    return View(trace, linked, find_steps(trace, linked))


@cache
def view(name: str) -> View:
    return view_of(reader.read(traces.path(name)))


BLURRED = {"ns_resolution_v100.json.gz"}
"""Times of 1.7e15 us, where neighbouring float64, which the plugin computes with, are 0.25 us apart."""


def blurred(trace: Trace) -> Trace:
    """With starts and ends as the plugin has them: microseconds as float64."""

    def blur(columns: Columns) -> Columns:
        start = (columns.start + trace.origin) / 1000.0
        end = start + (columns.end - columns.start) / 1000.0
        times = [np.round((each - trace.origin / 1000.0) * 1000).astype(np.int64) for each in (start, end)]
        new: Columns = replace(columns, start=times[0], end=times[1])
        keys = (-new.end, new.start, *((new.thread,) if isinstance(new, Host) else ()))
        order = np.lexsort(keys)
        return replace(new, **{field.name: getattr(new, field.name)[order] for field in fields(new)})

    return replace(trace, host=blur(trace.host), device=blur(trace.device))


# --- comparing ----------------------------------------------------------------------------------------------

ROUNDING = 1000
"""ns: the plugin's tables have whole microseconds, cut off or rounded."""


def times(
    row: OperatorRow | KernelRow, theirs: dict[str, Any], columns: dict[str, str]
) -> Iterator[Difference]:
    for ours, column in columns.items():
        if column in theirs and abs(getattr(row, f"{ours}_ns") - 1000 * theirs[column]) > ROUNDING:
            yield ours, getattr(row, f"{ours}_ns")


def operator(row: OperatorRow, theirs: dict[str, Any]) -> Iterator[Difference]:
    words = ("host_total", "host_self", "device_total", "device_self")
    yield from times(
        row, theirs, {f"{place}": f"{place.split('_')[0]}_{place.split('_')[1]}_duration" for place in words}
    )
    if row.calls != theirs["calls"]:
        yield "calls", row.calls
    if row.tensor_core_eligible != (theirs["tc_eligible"] == "Yes"):
        yield "eligible", row.tensor_core_eligible
    for ours, column in ((row.tensor_core_self, "tc_self_ratio"), (row.tensor_core_total, "tc_total_ratio")):
        if abs(100 * (ours or 0) - theirs[column]) > 0.005001:
            yield column.removesuffix("_ratio"), round(ours or 0, 4)


def kernel(row: KernelRow, theirs: dict[str, Any]) -> Iterator[Difference]:
    words = {"total": "Total", "mean": "Mean", "max": "Max", "min": "Min"}
    yield from times(row, theirs, {ours: f"{word} Duration (us)" for ours, word in words.items()})
    if row.calls != theirs["Calls"]:
        yield "calls", row.calls
    for number, column in (
        (row.blocks_per_sm or 0, "Mean Blocks Per SM"),
        (100 * (row.occupancy or 0), "Mean Est. Achieved Occupancy (%)"),
    ):
        if column in theirs and abs(number - theirs[column]) > 0.005001:
            yield column, number
    for ours, yes, columns in (
        ("tensor_cores", row.tensor_cores, ("Tensor Cores Used", "Kernel Uses Tensor Cores")),
        ("eligible", row.operator_eligible, ("Op is Tensor Cores eligible",)),
    ):
        if any(theirs.get(column, yes) not in (yes, "Yes" if yes else "No") for column in columns):
            yield ours, yes


def operator_differences(name: str) -> dict[str, Any]:
    """What is ours, by table, row and column; a row by shapes only where its row by name does not say it."""
    plugin, found = PLUGIN[name], dict[str, Any]()
    seen = view_of(blurred(view(name).trace)) if name in BLURRED else view(name)
    by_name = {(row.name, "[]"): row for row in operators.operators(seen)}
    by_shape = {(row.name, row.shapes or "[]"): row for row in operators.operators_by_shape(seen)}
    for table, rows in (("operators", by_name), ("operators_by_shape", by_shape)):
        number = plugin["operators_total_rows" if rows is by_name else "operators_by_shape_rows"]
        if len(rows) != number:
            found[table] = len(rows)
        for theirs in plugin[f"{table}_top"]:
            row = rows.get((theirs["name"], theirs.get("input_shape", "[]")))
            for column, truth in operator(row, theirs) if row else [("row", None)]:
                if f"{theirs['name']}: {column}" not in found:
                    found[f"{theirs['name']}: {column}"] = truth
    return found


def kernel_differences(name: str) -> dict[str, Any]:
    plugin, found = PLUGIN[name], dict[str, Any]()
    by_name: dict[tuple[str, ...], KernelRow] = {(row.name,): row for row in kernels.kernels(view(name))}
    by_launch = {launch(row): row for row in kernels.kernels_by_launch(view(name))}
    for table, rows in (("kernel", by_name), ("kernel_op", by_launch)):
        if len(rows) != (plugin.get(f"{table}_rows") or 0):
            found[table] = len(rows)
        for values in plugin.get(f"{table}_top") or []:
            theirs = dict(zip(plugin[f"{table}_columns"], values, strict=True))
            key = tuple(str(value) for value in (values[:1] if table == "kernel" else values[:6]))
            row = rows.get(key)
            for column, truth in kernel(row, theirs) if row else [("row", None)]:
                if f"{key[0][:24]}: {column}" not in found:
                    found[" ".join([key[0][:24], *key[1:3]]) + f": {column}"] = truth
    return found


def launch(row: KernelRow) -> tuple[str, ...]:
    """As the plugin writes it."""
    numbers = (str(row.registers or 0), str(row.shared_memory or 0))
    return (row.name, row.operator or "CallTreeRoot", row.grid or "None", row.block or "None", *numbers)


# --- where the plugin is wrong ----------------------------------------------------------------------------

FAMILIES = "its list of tensor-core kernels ends with the first names of Ampere; AMD is not in it"
OPERATORS = "its list of operators that could use tensor cores ends with torch 1.9"
DRIVER = "it does not know cuLaunchKernel[Ex]: what that launched has no operator, and is host self time"
ID = "External ids name another operator than the one around the launch, or none"
TWICE = "device time of an operator in one of its own name counts twice in their total"
LOST = "kernels without a launch in the file, or launched outside of operators, are in no row"
BLUR = "blurred, one of 815 aten::mul ends behind its parent and is dropped; the times here are blurred, too"

WRONG: dict[str, dict[str, dict[str, Any]]] = {
    "ns_resolution_v100.json.gz": {
        BLUR: {
            "aten::convolution_backward: host_self": 11750000,
            "aten::mul: host_total": 54676500,
            "aten::mul: host_self": 4688000,
            "aten::mul: device_total": 2565000,
            "aten::mul: device_self": 2565000,
            "aten::mul: calls": 815,
        },
        OPERATORS: {
            "aten::convolution_backward: eligible": True,
            "cudnn_infer_volta_scudnn aten::convolution_backward [49, 4, 1]: eligible": True,
            "void wgrad_alg0_engine<f aten::convolution_backward [1, 2, 224]: eligible": True,
            "volta_sgemm_32x128_tn aten::convolution_backward [8, 8, 32]: eligible": True,
            "volta_sgemm_64x64_tn aten::convolution_backward [2, 8, 32]: eligible": True,
        },
    },
    "nccl_a100.json.gz": {
        ID: {
            "record_param_comms: host_self": 2215162,
            "aten::cudnn_batch_norm_backward: host_self": 22710614,
        },
        FAMILIES: {
            "aten::convolution_backward: eligible": True,
            "aten::convolution_backward: tc_self": 0.6836,
            "aten::convolution_backward: tc_total": 0.6836,
            "aten::cudnn_convolution: tc_self": 0.6811,
            "aten::cudnn_convolution: tc_total": 0.6811,
            "_ZN19cutlass_cudnn_train: tensor_cores": True,
            "void cutlass::Kernel<cut aten::convolution_backward [4, 1, 32]: eligible": True,
        },
    },
    "edge/mi250_toy.json.gz": {
        FAMILIES: {
            "aten::addmm: tc_self": 0.719,
            "aten::addmm: tc_total": 0.719,
            "aten::mm: tc_self": 1.0,
            "aten::mm: tc_total": 1.0,
            "Cijk_Alik_Bljk_SB_Bias_A: tensor_cores": True,
            "Cijk_Ailk_Bjlk_SB_Bias_A: tensor_cores": True,
        },
        TWICE: {"aten::mse_loss_backward: device_total": 7520},
    },
    "edge/triton.json.gz": {
        DRIVER: {
            "triton_poi_fused_add_cos_sin_0: host_self": 48044,
            "triton_poi_fused_add_cos_sin_0: device_total": 1760,
            "triton_poi_fused_add_cos_sin_0: device_self": 1760,
            "Torch-Compiled Region: 0/0: device_total": 1760,
            "triton_poi_fused_add_cos CallTreeRoot [1, 1, 1]: row": None,
        }
    },
    "h100_bert_small.json.gz": {
        FAMILIES: {
            "aten::_flash_attention_forward: eligible": True,
            "aten::_flash_attention_forward: tc_self": 1.0,
            "aten::_flash_attention_forward: tc_total": 1.0,
            "void cutlass::Kernel2<cu: tensor_cores": True,
            "void pytorch_flash::flas: tensor_cores": True,
            "void pytorch_flash::flas aten::_flash_attention_forward [2, 1, 8]: eligible": True,
        },
        DRIVER: {
            "aten::addmm: host_self": 562599,
            "aten::addmm: device_total": 197598,
            "aten::addmm: device_self": 197598,
            "void cutlass::Kernel2<cu CallTreeRoot [40, 2, 1]: row": None,
            "void cutlass::Kernel2<cu CallTreeRoot [16, 15, 1]: row": None,
            "void cutlass::Kernel2<cu CallTreeRoot [24, 4, 1]: row": None,
        },
    },
    "h100_vit.json.gz": {
        DRIVER: {
            "aten::addmm: host_self": 1429819,
            "aten::addmm: device_total": 735037,
            "aten::addmm: device_self": 735037,
            "void cutlass::Kernel2<cu CallTreeRoot [104, 1, 1]: row": None,
            "void cutlass::Kernel2<cu CallTreeRoot [8, 2, 1]: row": None,
        },
        FAMILIES: {
            "aten::_flash_attention_forward: eligible": True,
            "aten::_flash_attention_forward: tc_self": 1.0,
            "aten::_flash_attention_forward: tc_total": 1.0,
            "void pytorch_flash::flas: tensor_cores": True,
            "void pytorch_flash::flas aten::_flash_attention_forward [2, 4, 12]: eligible": True,
        },
    },
    "dlrm_8_ranks/worker0_step_12.1694128201545.pt.trace.json.gz": {
        ID: {
            "aten::empty: host_self": 283000,
            "aten::fill_: host_self": 147000,
            "aten::fill_: device_total": 51000,
            "aten::fill_: device_self": 51000,
            "aten::to: device_total": 44000,
            "aten::copy_: host_self": 232000,
            "aten::copy_: device_total": 79000,
            "aten::copy_: device_self": 79000,
            "kernel_op": 150,
        }
    },
    "plugin_unit/test_distributed_gloo_gpu.json": {LOST: {"kernel_op": 1}},
    "plugin_unit/test_distributed_gloo_gpu_1.json": {LOST: {"kernel_op": 1}},
    "plugin_unit/test_distributed_nccl.json": {LOST: {"kernel_op": 3}},
    "plugin_unit/test_distributed_nccl_1.json": {LOST: {"kernel_op": 3}},
    "plugin_unit/test_gpu_utilization.json": {
        ID: {
            "aten::mm: device_total": 50000,
            "aten::mm: device_self": 50000,
            "aten::mat_mul: device_self": 20000,
            "void gemmSN_TN_kernel_64 aten::mat_mul None: row": None,
        }
    },
    "plugin_unit/test_group_by_kernel_columns.json": {
        ID: {
            "op1: host_self": 60000,
            "op1: device_total": 0,
            "op1: device_self": 0,
            "kernel1 op1 [16, 1, 1]: row": None,
        }
    },
    "plugin_unit/test_group_by_kernel_columns_invalid_input.json": {
        ID: {
            "op1: host_self": 60000,
            "op1: device_total": 0,
            "op1: device_self": 0,
            "kernel1 op1 None: row": None,
            "kernel1 op1 [16, 1, 1]: row": None,
        }
    },
    "plugin_unit/test_memory_view.json": {
        ID: {
            "aten::nll_loss_backward: host_self": 70000,
            "aten::nll_loss_backward: device_total": 0,
            "aten::nll_loss_backward: device_self": 0,
            "void cunn_ClassNLLCriter aten::nll_loss_backward None: row": None,
        }
    },
    "plugin_unit/test_top_level_runtime.json": {LOST: {"kernel_op": 1}},
}


@pytest.mark.parametrize("name", PLUGIN)
def test_operators_are_the_plugins_where_it_is_right(name: str) -> None:
    wrong = {key: truth for why in WRONG.get(name, {}).values() for key, truth in why.items()}
    found = operator_differences(name) | kernel_differences(name)
    assert found == wrong


RATIOS: dict[str, tuple[float, float]] = {
    "nccl_a100.json.gz": (
        0.2376,
        0.3466,
    ),  # cutlass_cudnn_train kernels, and the operators that launched them
    "edge/mi250_toy.json.gz": (0.2727, 0.3348),  # Cijk_ kernels with MFMA
    "h100_bert_small.json.gz": (0.7650, 0.7650),  # wmma, flash attention; launched by the driver
    "h100_vit.json.gz": (0.7831, 0.8020),  # the same
    "dlrm_8_ranks/worker0_step_12.1694128201545.pt.trace.json.gz": (0.0, 0.0299),  # External ids
    "plugin_unit/test_external_id.json": (0.0, 0.4231),  # 11 us of 26 are launched inside aten::mm
    "plugin_unit/test_gpu_utilization.json": (0.0, 0.7143),  # 50 of 70
}
"""Where the plugin is wrong: share of time in tensor-core kernels, and in kernels of operators that could."""


@pytest.mark.parametrize("name", PLUGIN)
def test_tensor_core_shares_of_all_kernels(name: str) -> None:
    seen, plugin = view(name), PLUGIN[name]
    device = seen.trace.device
    matrix = names.rows(seen.trace.texts, device.name, names.uses_tensor_cores)
    kernel_rows, duration = device.kind == DeviceKind.KERNEL, device.end - device.start
    whole = duration[kernel_rows].sum()
    attached = duration[kernel_rows & (seen.links.operator >= 0)].sum()
    could = overview.eligible(seen, matrix, names.is_tensor_core_eligible_plugin)
    shares = (
        duration[kernel_rows & matrix].sum() / whole if whole else 0.0,
        duration[kernel_rows & could].sum() / attached if attached else 0.0,
    )
    theirs = (plugin["tc_used_ratio_kernel_view"] or 0.0, plugin["tc_eligible_ops_kernel_ratio"] or 0.0)
    assert shares == pytest.approx(RATIOS.get(name, theirs), abs=1e-4)
    by_name = kernels.kernels(seen)
    assert sum(row.total_ns for row in by_name) == whole
    assert sum(row.total_ns for row in kernels.kernels_by_launch(seen)) == whole
    assert sum(row.total_ns for row in by_name if row.tensor_cores) == duration[kernel_rows & matrix].sum()


@pytest.mark.parametrize("name", TRACELENS)
def test_kernels_and_operators_are_those_of_tracelens(name: str) -> None:
    golden, seen = TRACELENS[name], view(name)
    by_launch = kernels.kernels_by_launch(seen)
    for theirs in golden["kernel_summary_top"]:
        of_name = [row for row in by_launch if row.name.startswith(theirs["Kernel name"])]
        rows = [row for row in of_name if row.operator == theirs["Parent cpu_op"]]
        assert sum(row.calls for row in rows) == int(theirs["Kernel duration (µs)_count"])
        assert sum(row.total_ns for row in rows) == round(1000 * float(theirs["Kernel duration (µs)_sum"]))
        assert min(row.min_ns for row in rows) == round(1000 * float(theirs["Kernel duration (µs)_min"]))
        assert max(row.max_ns for row in rows) == round(1000 * float(theirs["Kernel duration (µs)_max"]))
    by_name = {row.name: row for row in operators.operators(seen)}
    for theirs in golden["ops_summary_top"]:
        row = by_name[theirs["name"]]
        # Its sums are of float64 times of 1.4e12 us, 0.24 ns apart.
        assert row.device_self_ns == pytest.approx(
            1000 * float(theirs["total_direct_kernel_time_sum"]), abs=10
        )
        assert row.device_total_ns == pytest.approx(
            1000 * float(theirs["total_subtree_kernel_time_sum"]), abs=10
        )


def module_pairs(rows: Sequence[ModuleRow], theirs: Any, parent: str = "") -> Iterator[tuple[ModuleRow, Any]]:
    """Our row of every node of the plugin's, which has a number for what it left out."""
    for node in theirs if isinstance(theirs, list) else []:
        (row,) = [row for row in rows if row.parent == parent and row.name == node["name"]]
        yield row, node
        yield from module_pairs(rows, node["children"], row.id)


@pytest.mark.parametrize("name", [name for name, each in PLUGIN.items() if each.get("module_view_top")])
def test_modules_are_the_plugins(name: str) -> None:
    rows = modules.modules(view(name))
    pairs = list(module_pairs(rows, PLUGIN[name]["module_view_top"]))
    assert len(pairs) >= 3
    for row, theirs in pairs:
        assert (row.calls, row.operators) == (theirs["occurences"], theirs["operators"])
        assert row.host_total_ns == pytest.approx(1000 * theirs["host_duration"], abs=1)
        # Its self time is also without the operators called directly; ours is without child modules only.
        inner = sum(each.host_total_ns for each in rows if each.parent == row.id)
        assert row.host_self_ns == row.host_total_ns - inner
        assert row.host_self_ns >= 1000 * theirs["self_host_duration"] - 1
        # It misses what cuLaunchKernel launched.
        assert row.device_total_ns >= 1000 * theirs["device_duration"] - 10
    if name in TRACELENS:
        (root,) = [row for row in rows if row.depth == 0]
        (busy,) = [part for part in TRACELENS[name]["gpu_timeline"] if part["type"] == "busy_time"]
        assert root.device_total_ns == pytest.approx(1e6 * float(busy["time ms"]), abs=10)
