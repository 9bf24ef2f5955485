"""Run by ONNX Runtime in int8, calibrated on the first inputs.

Lies when: other inputs reach further than those of the calibration; the held-out inputs decide.
Source: onnxruntime.ai/docs/performance/model-optimizations/quantization.html.
"""

from laptime.tuning.inference.catalogue import _torch_only
from laptime.tuning.inference.draft import Draft
from laptime.tuning.optimization import Options

TITLE = "ONNX Runtime in int8"
NUMERICS = "precision"
SAVES = 0.9
PRIOR = 0.7
NEEDS = frozenset({"cpu"})
GIVES = frozenset({"other_runtime", "on_onnxruntime", "half_precision"})
CONFLICTS = _torch_only.ALL
PACKAGES = ("onnxruntime", "onnx", "onnxscript")
BUILDS = 20.0


def apply(draft: Draft, options: Options) -> None:
    """Another form."""
    draft.form = "onnx_int8"
    draft.settings["precision"] = "int8"
