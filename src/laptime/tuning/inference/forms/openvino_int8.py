"""A model for OpenVINO, weights and activations in int8 (post-training quantisation by NNCF).

Source: docs.openvino.ai, basic quantization flow; nncf.quantize.
"""

from __future__ import annotations

from pathlib import Path

from laptime.measure.recorded_calls import RecordedCalls
from laptime.tuning.inference.draft import Draft, Refused
from laptime.tuning.inference.forms import openvino as form
from laptime.tuning.inference.forms.exported import first_words

HANDED_BACK = "openvino"
NEEDS = ("openvino",)


def write(draft: Draft, folder: Path) -> None:
    """Writes model.xml and model.bin.

    Raises:
        Refused: it cannot be exported, converted or quantised.
    """
    import nncf
    import openvino

    form.write(draft, folder)
    inputs = RecordedCalls.load(draft.calibration).calls[0].inputs
    try:
        model = openvino.Core().read_model(folder / "model.xml")
        calls = nncf.Dataset([inputs], lambda call: dict(enumerate(call)))
        quantised = nncf.quantize(model, calls, subset_size=1)
        openvino.save_model(quantised, folder / "int8.xml", compress_to_fp16=False)
    except Exception as error:
        raise Refused(f"NNCF cannot quantise it: {first_words(error)}") from error
    for suffix in (".xml", ".bin"):
        (folder / f"int8{suffix}").replace(folder / f"model{suffix}")
