"""Run by TensorRT in float16, inputs and outputs in float32.

Lies when: a value is beyond 65,504; the outputs tell.
Source: docs.nvidia.com/deeplearning/tensorrt, strongly typed networks: types are those of the ONNX file.
"""

from laptime.tuning.inference.catalogue import _torch_only, fp16, tensorrt
from laptime.tuning.inference.draft import Draft
from laptime.tuning.optimization import Options

TITLE = "TensorRT in float16"
NUMERICS = "precision"
SAVES = 0.9
PRIOR = 0.7
NEEDS = tensorrt.NEEDS | {"fp16"}
GIVES = tensorrt.GIVES | {"half_precision"}
CONFLICTS = _torch_only.ALL
PACKAGES = tensorrt.PACKAGES
BUILDS = tensorrt.BUILDS
AS_EXPORTED = False


def apply(draft: Draft, options: Options) -> None:
    """The module in float16, in the same form."""
    fp16.apply(draft, options)
    tensorrt.apply(draft, options)
