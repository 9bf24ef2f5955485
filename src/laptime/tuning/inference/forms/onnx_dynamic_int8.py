"""An ONNX model for ONNX Runtime, weights of matrix products in int8, activations quantised in each call.

Source: onnxruntime.ai/docs/performance/model-optimizations/quantization.html, dynamic quantization.
"""

from __future__ import annotations

from pathlib import Path

from laptime.tuning.inference.draft import Draft, Refused
from laptime.tuning.inference.forms import onnx
from laptime.tuning.inference.forms.exported import first_words
from laptime.tuning.inference.forms.onnx_int8 import has_vnni

HANDED_BACK = "onnx"
NEEDS = ("onnxruntime",)
PRODUCTS = ["MatMul", "Gemm", "Attention", "LSTM"]


def write(draft: Draft, folder: Path) -> None:
    """Writes model.onnx.

    Raises:
        Refused: it cannot be exported or quantised, or has no products with weights.
    """
    onnx.write(draft, folder)
    source, place = folder / "model.onnx", folder / "int8.onnx"
    try:
        quantised = _quantise(source, place)
    except Exception as error:
        raise Refused(f"ONNX Runtime cannot quantise it: {first_words(error)}") from error
    if not quantised:
        raise Refused("it has no matrix products with weights to quantise")
    for part in folder.glob("model.onnx*"):
        part.unlink()
    place.rename(source)


def _quantise(source: Path, place: Path) -> bool:
    """Whether anything was."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.quantization.shape_inference import quant_pre_process

    prepared = source.with_name("prepared.onnx")
    quant_pre_process(str(source), str(prepared), skip_symbolic_shape=True)
    quantize_dynamic(
        str(prepared),
        str(place),
        op_types_to_quantize=PRODUCTS,
        per_channel=True,
        reduce_range=not has_vnni(),
        weight_type=QuantType.QInt8,
    )
    prepared.unlink()
    nodes = onnx.load(str(place), load_external_data=False).graph.node
    return any(node.op_type.startswith("Dynamic") for node in nodes)
