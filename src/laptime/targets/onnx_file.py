"""`model.onnx`: a model in the Open Neural Network Exchange format."""

from laptime.targets import Recipe, _shared

FORM = "FILE.onnx"
names = _shared.none_known


def matches(text: str) -> bool:
    return text.endswith(".onnx")


def resolve(text: str) -> Recipe:
    """The recipe of an ONNX file, run by ONNX Runtime unless another backend is asked for."""
    return _shared.resolve_file(text, kind="onnx_file", backend="onnxruntime")
