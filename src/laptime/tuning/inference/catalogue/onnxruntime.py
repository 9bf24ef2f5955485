"""Run by ONNX Runtime, all levels of graph optimisation, float32.

Lies when: an operator has no fast kernel there.
Source: onnxruntime.ai/docs/performance.
"""

from laptime.tuning.inference.catalogue import _torch_only
from laptime.tuning.inference.draft import Draft
from laptime.tuning.optimization import Options

TITLE = "ONNX Runtime"
NUMERICS = "reassociated"
SAVES = 0.75
PRIOR = 0.6
NEEDS = frozenset({"cpu", "!onnx_file"})
GIVES = frozenset({"other_runtime", "on_onnxruntime"})
CONFLICTS = _torch_only.ALL
PACKAGES = ("onnxruntime", "onnx", "onnxscript")
BUILDS = 12.0


def apply(draft: Draft, options: Options) -> None:
    """Another form."""
    draft.form = "onnx"
