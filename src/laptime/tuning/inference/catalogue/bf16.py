"""Weights and activations in bfloat16; inputs and outputs stay float32.

Lies when: the CPU has no bfloat16 units and emulates them.
Source: oneDNN documentation, bfloat16 training and inference.
"""

from laptime.tuning.inference.casting import in_half_precision
from laptime.tuning.inference.catalogue import _torch_only
from laptime.tuning.inference.draft import Draft
from laptime.tuning.optimization import Options

TITLE = "bfloat16"
NUMERICS = "precision"
SAVES = 0.8
NEEDS = _torch_only.NEEDS | {"bf16"}
GIVES = frozenset({"half_precision"})


def apply(draft: Draft, options: Options) -> None:
    """The module in bfloat16 between casts."""
    draft.module = in_half_precision(draft.module, "bfloat16")
    draft.settings["precision"] = "bfloat16"
