"""A model for OpenVINO, converted from ONNX; weights stay in float32."""

from __future__ import annotations

from pathlib import Path

from laptime.tuning.inference.draft import Draft, Refused
from laptime.tuning.inference.forms import onnx
from laptime.tuning.inference.forms.exported import first_words

HANDED_BACK = "openvino"
NEEDS = ("openvino",)


def write(draft: Draft, folder: Path) -> None:
    """Writes model.xml and model.bin.

    Raises:
        Refused: it cannot be exported or converted.
    """
    import openvino

    onnx.write(draft, folder)
    try:
        model = openvino.convert_model(folder / "model.onnx")
        openvino.save_model(model, folder / "model.xml", compress_to_fp16=False)
    except Exception as error:
        raise Refused(f"OpenVINO cannot read it: {first_words(error)}") from error
    for path in folder.glob("model.onnx*"):
        path.unlink()
