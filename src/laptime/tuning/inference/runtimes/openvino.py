"""OpenVINO on the CPU: the model is converted from its ONNX export.

int8 is post-training quantisation by NNCF. If that moves the calibration's own outputs further than int8
explains, the operators that do most of it stay in float32, as few as are needed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from laptime.analysis.agreement import LIMITS, Call, judge, measure
from laptime.measure.recorded_calls import RecordedCall, RecordedCalls
from laptime.tuning.inference.changes import Form, ModelChange
from laptime.tuning.inference.draft import Draft, refusing
from laptime.tuning.inference.runtimes.onnxruntime import write_onnx
from laptime.tuning.inference.runtimes.pytorch import OF_PYTORCH

DROP = LIMITS["int8"].rms / 2
"""RMS error that operators are kept in float32 for: half of what may be, as other inputs do more."""
MOST_KEPT = 20  # operators that are kept in float32 at most: each is another measurement
_PACKAGES = ("openvino", "onnx", "onnxscript")
_RUNS: dict[str, Any] = {
    "gives": frozenset({"other_runtime", "on_openvino"}),
    "conflicts": OF_PYTORCH,
    "packages": _PACKAGES,
}
_PROPERTIES = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}  # one request at a time
CHANGES = [
    # Lies when: the performance hint sees CPUs that a container's quota takes away.
    # Source: docs.openvino.ai, high-level performance hints; precision hint f32, as the default may be
    # bfloat16.
    ModelChange.row(
        "openvino", "OpenVINO", "cpu", (0.95, 0.47, 12), "openvino", properties=_PROPERTIES, **_RUNS
    ),
    # Lies when: the CPU has no bfloat16 units.
    # Source: docs.openvino.ai, INFERENCE_PRECISION_HINT.
    ModelChange.row(
        "openvino_bf16",
        "OpenVINO in bfloat16",
        "cpu bf16",
        (0.9, 0.7, 12),
        "openvino",
        rounds="bfloat16",
        artefact="openvino",
        properties={**_PROPERTIES, "INFERENCE_PRECISION_HINT": "bf16"},
        **_RUNS,
    ),
    # Quantised by NNCF with the first inputs.
    # Lies when: other inputs reach further than those of the calibration; the held-out inputs decide.
    # Source: docs.openvino.ai, basic quantization flow.
    ModelChange.row(
        "openvino_int8",
        "OpenVINO in int8",
        "cpu",
        (0.9, 0.7, 20),
        "openvino_int8",
        rounds="int8",
        properties=_PROPERTIES,
        **{**_RUNS, "packages": (*_PACKAGES, "nncf")},
    ),
]


def write(draft: Draft, folder: Path) -> None:
    """Writes model.xml and model.bin; weights stay in float32.
    Raises Refused: it cannot be exported or converted."""
    import openvino

    write_onnx(draft, folder)
    with refusing("OpenVINO cannot read it"):
        model = openvino.convert_model(folder / "model.onnx")
        openvino.save_model(model, folder / "model.xml", compress_to_fp16=False)
        shapes = [each.partial_shape for each in model.inputs]
        draft.settings["takes"] = [
            [None if size.is_dynamic else size.get_length() for size in shape] for shape in shapes
        ]
    for path in folder.glob("model.onnx*"):
        path.unlink()


def write_int8(draft: Draft, folder: Path) -> None:
    """Writes model.xml and model.bin, weights and activations in int8.

    Source: docs.openvino.ai, basic quantization flow, quantizing with accuracy control; nncf.quantize.

    Raises:
        Refused: it cannot be exported, converted or quantised.
    """
    import openvino

    write(draft, folder)
    recorded = RecordedCalls.load(draft.calibration).calls[0]
    with refusing("NNCF cannot quantise it"):
        model = openvino.Core().read_model(folder / "model.xml")
        openvino.save_model(_quantise(model, recorded), folder / "int8.xml", compress_to_fp16=False)
    for suffix in (".xml", ".bin"):
        (folder / f"int8{suffix}").replace(folder / f"model{suffix}")


def _quantise(model: Any, recorded: RecordedCall) -> Any:
    """The model in int8, without the operators that cannot be."""
    import nncf
    import openvino

    calls = nncf.Dataset([recorded.inputs], lambda call: dict(enumerate(call)))
    quantised = nncf.quantize(model, calls, subset_size=1)
    compiled = openvino.compile_model(quantised, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    judgement = judge(_errors(compiled, recorded), "int8")
    if judgement.word != "different" and judgement.share <= 1:
        return quantised

    def score(compiled: Any, given: Iterable[Any]) -> tuple[float, None]:
        largest = max((error.rms for error in _errors(compiled, recorded).outputs), default=float("inf"))
        return -largest, None

    return nncf.quantize_with_accuracy_control(
        model,
        calls,
        calls,
        score,
        max_drop=DROP,
        drop_type=nncf.DropType.ABSOLUTE,
        subset_size=1,
        advanced_accuracy_restorer_parameters=nncf.AdvancedAccuracyRestorerParameters(
            max_num_iterations=MOST_KEPT
        ),
    )


def _errors(compiled: Any, recorded: RecordedCall) -> Any:
    made = [each.copy() for each in compiled(recorded.inputs).to_tuple()]
    return measure([Call(made, recorded.outputs, recorded.batch)], against="the model as it is")


FORMS = {
    "openvino": Form(write=write, tuned="openvino", packages=("openvino",), profiler="openvino"),
    "openvino_int8": Form(write=write_int8, tuned="openvino", packages=("openvino",), profiler="openvino"),
}
