"""Run by TensorRT in float32, from the model's ONNX export.

Lies when: a call has more than four times the items of the measurement: the engine takes no more.
Source: docs.nvidia.com/deeplearning/tensorrt, Python API; strongly typed networks, BuilderFlag.TF32.
"""

from laptime.tuning.inference.catalogue import _torch_only
from laptime.tuning.inference.draft import Draft
from laptime.tuning.optimization import Options

TITLE = "TensorRT"
NUMERICS = "reassociated"
SAVES = 0.75
PRIOR = 0.6
NEEDS = frozenset({"cuda", "!varying_shapes"})
GIVES = frozenset({"other_runtime"})
CONFLICTS = _torch_only.ALL
PACKAGES = ("tensorrt", "onnx", "onnxscript")
BUILDS = 90.0


def apply(draft: Draft, options: Options) -> None:
    """Another form."""
    draft.form = "tensorrt"
