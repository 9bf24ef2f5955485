"""Run by OpenVINO in int8, quantised by NNCF with the first inputs.

Lies when: other inputs reach further than those of the calibration; the held-out inputs decide.
Source: docs.openvino.ai, basic quantization flow.
"""

from laptime.tuning.inference.catalogue import _torch_only, openvino
from laptime.tuning.inference.draft import Draft
from laptime.tuning.optimization import Options

TITLE = "OpenVINO in int8"
NUMERICS = "precision"
SAVES = 0.9
PRIOR = 0.7
NEEDS = openvino.NEEDS
GIVES = openvino.GIVES | {"half_precision"}
CONFLICTS = _torch_only.ALL
PACKAGES = (*openvino.PACKAGES, "nncf")
BUILDS = 20.0


def apply(draft: Draft, options: Options) -> None:
    """The same as in float32, in another form."""
    openvino.apply(draft, options)
    draft.form = "openvino_int8"
    draft.settings["precision"] = "int8"
