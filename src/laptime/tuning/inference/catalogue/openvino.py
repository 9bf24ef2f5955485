"""Run by OpenVINO in float32, with its hint for latency or throughput.

Lies when: the performance hint sees CPUs that a container's quota takes away.
Source: docs.openvino.ai, high-level performance hints; precision hint f32, as the default may be bfloat16.
"""

from laptime.tuning.inference.catalogue import _torch_only
from laptime.tuning.inference.draft import Draft
from laptime.tuning.optimization import Options

TITLE = "OpenVINO"
NUMERICS = "reassociated"
SAVES = 0.75
PRIOR = 0.6
NEEDS = frozenset({"cpu"})
GIVES = frozenset({"other_runtime", "on_openvino"})
CONFLICTS = _torch_only.ALL
PACKAGES = ("openvino", "onnx", "onnxscript")
BUILDS = 12.0


def apply(draft: Draft, options: Options) -> None:
    """Another form; one request at a time, so the hint is for latency."""
    draft.form = "openvino"
    properties = draft.settings.setdefault("properties", {})
    properties |= {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
