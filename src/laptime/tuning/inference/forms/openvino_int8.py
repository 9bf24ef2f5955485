"""A model for OpenVINO, weights and activations in int8 (post-training quantisation by NNCF).

Where that moves the calibration's own outputs further than int8 explains, the operators that do most of it
stay in float32, as few as are needed.

Source: docs.openvino.ai, basic quantization flow, quantizing with accuracy control; nncf.quantize.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from laptime.analysis.agreement import LIMITS, Call, judged, measured
from laptime.measure.recorded_calls import RecordedCall, RecordedCalls
from laptime.tuning.inference.draft import Draft, Refused
from laptime.tuning.inference.forms import openvino as form
from laptime.tuning.inference.forms.exported import first_words

HANDED_BACK = "openvino"
NEEDS = ("openvino",)
DROP = LIMITS["int8"].rms / 2
"""RMS error that operators are kept in float32 for: half of what may be, as other inputs do more."""
MOST_KEPT = 20
"""Operators that are kept in float32 at most: each is another measurement."""


def write(draft: Draft, folder: Path) -> None:
    """Writes model.xml and model.bin.

    Raises:
        Refused: it cannot be exported, converted or quantised.
    """
    import openvino

    form.write(draft, folder)
    recorded = RecordedCalls.load(draft.calibration).calls[0]
    try:
        model = openvino.Core().read_model(folder / "model.xml")
        openvino.save_model(_quantised(model, recorded), folder / "int8.xml", compress_to_fp16=False)
    except Exception as error:
        raise Refused(f"NNCF cannot quantise it: {first_words(error)}") from error
    for suffix in (".xml", ".bin"):
        (folder / f"int8{suffix}").replace(folder / f"model{suffix}")


def _quantised(model: Any, recorded: RecordedCall) -> Any:
    """The model in int8, without the operators that cannot be."""
    import nncf
    import openvino

    calls = nncf.Dataset([recorded.inputs], lambda call: dict(enumerate(call)))
    quantised = nncf.quantize(model, calls, subset_size=1)
    if _is_close(openvino.compile_model(quantised, "CPU", {"INFERENCE_PRECISION_HINT": "f32"}), recorded):
        return quantised

    def score(compiled: Any, given: Iterable[Any]) -> tuple[float, None]:
        return -_rms(compiled, recorded), None

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


def _is_close(compiled: Any, recorded: RecordedCall) -> bool:
    """Whether int8 explains how far its outputs are from the model's."""
    return judged(_errors(compiled, recorded), "int8").word != "different"


def _rms(compiled: Any, recorded: RecordedCall) -> float:
    """The largest RMS error of any output, over the RMS of the model's."""
    return max((error.rms for error in _errors(compiled, recorded).outputs), default=float("inf"))


def _errors(compiled: Any, recorded: RecordedCall) -> Any:
    made = [each.copy() for each in compiled(recorded.inputs).to_tuple()]
    call = Call(made, recorded.outputs, recorded.batch)
    return measured([call], against="the model as it is")
