"""Run by ONNX Runtime, matrix products in int8; ranges of activations are taken from each call.

Nothing is calibrated, so no input reaches beyond it. Convolutions stay in float32: in this mode they
have slow kernels only.

Lies when: products are small; then finding the range costs more than int8 saves.
Source: onnxruntime.ai/docs/performance/model-optimizations/quantization.html, recommended for transformers.
"""

from laptime.tuning.inference.catalogue import _torch_only, onnxruntime_int8
from laptime.tuning.inference.draft import Draft
from laptime.tuning.optimization import Options

TITLE = "ONNX Runtime, products in int8"
NUMERICS = "precision"
SAVES = 0.85
PRIOR = 0.3
NEEDS = onnxruntime_int8.NEEDS
GIVES = onnxruntime_int8.GIVES
CONFLICTS = _torch_only.ALL
PACKAGES = onnxruntime_int8.PACKAGES
BUILDS = 15.0


def apply(draft: Draft, options: Options) -> None:
    """Another form."""
    draft.form = "onnx_dynamic_int8"
    draft.settings["precision"] = "int8"
