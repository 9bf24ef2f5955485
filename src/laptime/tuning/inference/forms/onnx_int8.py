"""An ONNX model for ONNX Runtime, weights and activations in int8 (static quantisation).

Ranges of activations are those of the calibration inputs: a value beyond them is clipped. Weights have a
scale for each output channel, and 7 bits on CPUs without VNNI, where sums of two products overflow.

Source: onnxruntime.ai/docs/performance/model-optimizations/quantization.html.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from laptime.measure.recorded_calls import Array, RecordedCalls
from laptime.tuning.inference.draft import Draft, Refused
from laptime.tuning.inference.forms import onnx
from laptime.tuning.inference.forms.exported import first_words
from laptime.tuning.inference.reference import instructions

HANDED_BACK = "onnx"
NEEDS = ("onnxruntime",)


def write(draft: Draft, folder: Path) -> None:
    """Writes model.onnx.

    Raises:
        Refused: it cannot be exported or quantised.
    """
    onnx.write(draft, folder)
    path = folder / "model.onnx"
    try:
        _quantise(path, folder / "int8.onnx", RecordedCalls.load(draft.calibration).calls[0].inputs)
    except Exception as error:
        raise Refused(f"ONNX Runtime cannot quantise it: {first_words(error)}") from error
    for part in folder.glob("model.onnx*"):
        part.unlink()
    (folder / "int8.onnx").rename(path)


def has_vnni() -> bool:
    """Whether the CPU sums products of 8 bits without overflow."""
    return bool({"avx512_vnni", "avx_vnni", "amx_int8"} & set(instructions()))


def _quantise(source: Path, place: Path, inputs: list[Array]) -> None:
    import onnxruntime
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.calibrate import CalibrationDataReader
    from onnxruntime.quantization.shape_inference import quant_pre_process

    prepared = source.with_name("prepared.onnx")
    quant_pre_process(str(source), str(prepared), skip_symbolic_shape=True)
    session = onnxruntime.InferenceSession(prepared, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()]

    class Calibration(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self._calls = iter([dict(zip(names, inputs, strict=True))])

        def get_next(self) -> Mapping[str, Any] | None:
            return next(self._calls, None)

    quantize_static(
        str(prepared),
        str(place),
        Calibration(),
        quant_format=QuantFormat.QDQ,
        per_channel=True,
        reduce_range=not has_vnni(),
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
    )
    prepared.unlink()
