"""Quantised by torchao (PT2E, calibrated on the first inputs), then compiled ahead of time by Inductor.

Lies when: other inputs reach further than those of the calibration; the held-out inputs decide.
Source: pytorch.org/tutorials, PyTorch 2 export quantization with X86 backend through Inductor.
"""

from laptime.tuning.inference.catalogue import compiled
from laptime.tuning.inference.draft import Draft
from laptime.tuning.optimization import Options

TITLE = "int8 by torchao, compiled by Inductor"
NUMERICS = "precision"
SAVES = 0.9
PRIOR = 0.5
NEEDS = compiled.NEEDS | {"cpu"}
GIVES = frozenset({"compiled", "half_precision"})
PACKAGES = ("torchao",)
BUILDS = 90.0
HOLDS = compiled.HOLDS


def apply(draft: Draft, options: Options) -> None:
    """Another form."""
    draft.form = "packaged_int8"
    draft.settings["precision"] = "int8"
