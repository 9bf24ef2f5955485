"""Weights and activations in float16; inputs and outputs stay float32.

Lies when: a value is beyond 65,504; the outputs tell.
Source: oneDNN documentation, float16 with AVX512-FP16 and AMX-FP16.
"""

from laptime.tuning.inference.casting import in_half_precision
from laptime.tuning.inference.catalogue import _torch_only
from laptime.tuning.inference.draft import Draft
from laptime.tuning.optimization import Options

TITLE = "float16"
NUMERICS = "precision"
SAVES = 0.8
NEEDS = _torch_only.NEEDS | {"fp16"}
GIVES = frozenset({"half_precision"})


def apply(draft: Draft, options: Options) -> None:
    """The module in float16 between casts."""
    draft.module = in_half_precision(draft.module, "float16")
    draft.settings["precision"] = "float16"
