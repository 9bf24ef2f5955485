"""Run by OpenVINO in bfloat16.

Lies when: the CPU has no bfloat16 units.
Source: docs.openvino.ai, INFERENCE_PRECISION_HINT.
"""

from laptime.tuning.inference.catalogue import _torch_only, openvino
from laptime.tuning.inference.draft import Draft
from laptime.tuning.optimization import Options

TITLE = "OpenVINO in bfloat16"
NUMERICS = "precision"
SAVES = 0.9
PRIOR = 0.7
NEEDS = openvino.NEEDS | {"bf16"}
GIVES = openvino.GIVES | {"half_precision"}
CONFLICTS = _torch_only.ALL
PACKAGES = openvino.PACKAGES
BUILDS = 12.0
ARTEFACT = "openvino"


def apply(draft: Draft, options: Options) -> None:
    """The same as in float32, with another precision."""
    openvino.apply(draft, options)
    draft.settings["properties"]["INFERENCE_PRECISION_HINT"] = "bf16"
    draft.settings["precision"] = "bfloat16"
