"""TF32: matrix products of float32 with 10 bits of mantissa, on tensor cores.

PyTorch lets convolutions use it by default, so only models with matrix products can gain.
Lies when: the model is bound by memory; or other code of the server counts on float32 products.
Source: NVIDIA A100 whitepaper; torch.set_float32_matmul_precision.
"""

from laptime.tuning.inference.catalogue import _torch_only
from laptime.tuning.inference.draft import Draft
from laptime.tuning.optimization import Options

TITLE = "TF32 matrix products"
NUMERICS = "precision"
SAVES = 2 / 3
PRIOR = 0.5
NEEDS = _torch_only.NEEDS | {"cuda", "tf32", "linear", "!half_precision"}
GIVES = frozenset({"tf32_on"})


def apply(draft: Draft, options: Options) -> None:
    """A setting of `tuned.py`, and of the compiler."""
    draft.settings["float32"] = "high"
    draft.settings.setdefault("precision", "float16")  # whose mantissa has 10 bits, too
