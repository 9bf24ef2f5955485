"""ONNX Runtime on the CPU, and the ONNX export that other runtimes begin with.

int8 with calibration takes the ranges of activations from the calibration inputs: a value beyond them is
clipped. Dynamic int8 takes them from each call, and convolutions, which have slow kernels there, stay in
float32. Weights have a scale for each output channel, and 7 bits on CPUs without VNNI, where sums of two
products overflow.

Source: onnxruntime.ai/docs/performance/model-optimizations/quantization.html."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from laptime.backends._onnx.exporting import LARGE, trace_program
from laptime.backends.torch.tensors import size, tensors
from laptime.kit.errors import UserCodeError
from laptime.measure.recorded_calls import Array, RecordedCalls
from laptime.tuning.inference.arm_process import types_of
from laptime.tuning.inference.changes import Form, ModelChange
from laptime.tuning.inference.draft import Draft, NoDraft, link, refusing
from laptime.tuning.inference.runtimes.pytorch import OF_PYTORCH, in_precision
from laptime.tuning.inference.survey import instructions

OPSET = 18
PRODUCTS = ["MatMul", "Gemm", "Attention", "LSTM"]  # operators that dynamic int8 quantises
_RUNS: dict[str, Any] = {
    "gives": frozenset({"other_runtime", "on_onnxruntime"}),
    "conflicts": OF_PYTORCH,
    "packages": ("onnxruntime", "onnx", "onnxscript"),
}
CHANGES = [
    # All levels of graph optimisation, float32.
    # Lies when: an operator has no fast kernel there.
    # Source: onnxruntime.ai/docs/performance.
    ModelChange.row("onnxruntime", "ONNX Runtime", "cpu !onnx_file", (0.95, 0.47, 12), "onnx", **_RUNS),
    # Calibrated on the first inputs.
    # Lies when: other inputs reach further than those of the calibration; the held-out inputs decide.
    ModelChange.row(
        "onnxruntime_int8", "ONNX Runtime in int8", "cpu", (0.9, 0.7, 20), "onnx_int8", rounds="int8", **_RUNS
    ),
    # Matrix products in int8; ranges of activations are taken from each call, so no input reaches beyond
    # them. Recommended for transformers.
    # Lies when: products are small; then finding the range costs more than int8 saves.
    ModelChange.row(
        "onnxruntime_dynamic_int8",
        "ONNX Runtime, products in int8",
        "cpu",
        (0.85, 0.3, 15),
        "onnx_dynamic_int8",
        rounds="int8",
        **_RUNS,
    ),
    # A lower level of graph optimisation than the default, the highest: without fusions of layouts, and
    # with the simplest rewrites alone.
    # Lies when: never by itself; a level that fuses less is faster only if a fused kernel is slow.
    # Source: onnxruntime.ai/docs/performance/model-optimizations/graph-optimizations.
    ModelChange.row(
        "graph_optimization",
        "level of graph optimisation",
        "on_onnxruntime !on_openvino",
        (0.3, 0.05, 8),
        propose=lambda loop_profile: [{"value": "EXTENDED"}, {"value": "BASIC"}],
        settings_only=True,
        apply=lambda draft, options: draft.settings.update(level=f"ORT_ENABLE_{options['value']}"),
    ),
]


def write_onnx(draft: Draft, folder: Path) -> None:
    """Writes model.onnx. Raises Refused: it cannot be exported, or not for any batch size."""
    there = draft.file or draft.export
    if there is not None and there.is_file():
        _place(there, folder)
    else:
        _export(draft, folder)
        if draft.export is not None:
            draft.export.parent.mkdir(exist_ok=True)
            _place(folder / "model.onnx", draft.export.parent)


def write(draft: Draft, folder: Path) -> None:
    """Writes model.onnx, and into the settings the sizes of each input, None: any.
    Raises Refused: it cannot be exported, or ONNX Runtime does not load it."""
    import onnxruntime

    write_onnx(draft, folder)
    with refusing("ONNX Runtime cannot load it"):
        session = onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
    shapes = [each.shape for each in session.get_inputs()]
    draft.settings["takes"] = [[size if isinstance(size, int) else None for size in each] for each in shapes]


def _export(draft: Draft, folder: Path) -> None:
    import torch

    tries = [draft.open_sizes("batch", lengths=lengths) for lengths in (True, False)]
    held = types_of([*tensors(draft.module.state_dict()), *draft.inputs])
    if draft.device == "cpu" and {"float16", "bfloat16"} & set(held):  # few operators take them there
        in_precision(draft, "float32")
    try:
        with torch.no_grad():
            program = trace_program(draft.module, tuple(draft.inputs), {}, opset=OPSET, tries=tries)
    except UserCodeError as error:
        raise NoDraft(f"{error.what}: {error.why}") from error
    takes = program.model.graph.inputs
    if len(takes) != len(draft.inputs):
        raise NoDraft(f"{len(draft.inputs)} tensors go in, the exported model takes {len(takes)}")
    program.save(str(folder / "model.onnx"), external_data=size(draft.module.state_dict()) > LARGE)


def _place(file: Path, folder: Path) -> None:
    """An ONNX file at another place, with the files that hold its weights.
    Raises Refused: weights lie outside its folder, which no copy could find."""
    link(file, folder / "model.onnx")
    for name in _outside(file):
        source, place = file.parent / name, folder / name
        if Path(os.path.normpath(place)).parent != folder or not source.is_file():
            raise NoDraft(f"its weights lie in {name}, which is not beside it")
        link(source, place)


def _outside(file: Path) -> set[str]:
    """Files that hold weights of an ONNX file; none if the package onnx is missing, which can tell."""
    try:
        import onnx
    except ImportError:
        return set()
    model = onnx.load(str(file), load_external_data=False)
    entries = [entry for each in model.graph.initializer for entry in each.external_data]
    return {entry.value for entry in entries if entry.key == "location"}


def write_int8(draft: Draft, folder: Path, *, calls_for_ranges: bool = True) -> None:
    """Writes model.onnx, weights and activations in int8, ranges taken from the calibration; or weights of
    matrix products alone, ranges taken in each call.
    Raises Refused: it cannot be exported or quantised, or has no products with weights."""
    write(draft, folder)
    inputs = RecordedCalls.load(draft.calibration).calls[0].inputs if calls_for_ranges else None
    with refusing("ONNX Runtime cannot quantise it"):
        is_quantised = _quantise(folder / "model.onnx", folder / "int8.onnx", inputs)
    if not is_quantised:
        raise NoDraft("it has no matrix products with weights to quantise")
    for part in folder.glob("model.onnx*"):
        part.unlink()
    (folder / "int8.onnx").rename(folder / "model.onnx")


write_dynamic_int8 = partial(write_int8, calls_for_ranges=False)


def _quantise(source: Path, place: Path, inputs: list[Array] | None) -> bool:
    """Whether there was anything to quantise. inputs: that ranges are taken from; None: from each call."""
    import onnx
    from onnxruntime import quantization
    from onnxruntime.quantization.shape_inference import quant_pre_process

    prepared, kinds = source.with_name("prepared.onnx"), quantization.QuantType
    quant_pre_process(str(source), str(prepared), skip_symbolic_shape=True)
    files = str(prepared), str(place)
    overflows = not {"avx512_vnni", "avx_vnni", "amx_int8"} & set(instructions())  # sums of such products
    how: dict[str, Any] = {"per_channel": True, "reduce_range": overflows, "weight_type": kinds.QInt8}
    if inputs is None:
        quantization.quantize_dynamic(*files, op_types_to_quantize=PRODUCTS, **how)
    else:
        how |= {"quant_format": quantization.QuantFormat.QDQ, "activation_type": kinds.QUInt8}
        quantization.quantize_static(*files, _calibration(prepared, inputs), **how)
    prepared.unlink()
    nodes = () if inputs is not None else onnx.load(str(place), load_external_data=False).graph.node
    return inputs is not None or any(node.op_type.startswith("Dynamic") for node in nodes)


def _calibration(prepared: Path, inputs: list[Array]) -> Any:
    import onnxruntime

    session = onnxruntime.InferenceSession(prepared, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()]
    calls = iter([dict(zip(names, inputs, strict=True))])
    return SimpleNamespace(get_next=partial(next, calls, None))  # as a CalibrationDataReader


FORMS = {
    name: Form(write=form, tuned="onnx", packages=("onnxruntime",), profiler="onnx_runtime")
    for name, form in (("onnx", write), ("onnx_int8", write_int8), ("onnx_dynamic_int8", write_dynamic_int8))
}
