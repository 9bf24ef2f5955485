"""Weights of large linear layers in int4, a scale for every 128 of them; activations in bfloat16.

The kernels take bfloat16 alone. Outputs are held against the limits of int8: what errs by more is refused.
Lies when: as `weight_only_int8`.
Source: docs.pytorch.org/ao, Int4WeightOnlyConfig; the packing is that of PyTorch's own kernel.
"""

from laptime.tuning.inference.casting import in_half_precision
from laptime.tuning.inference.catalogue import weight_only_int8
from laptime.tuning.inference.draft import Draft, Refused
from laptime.tuning.optimization import Options

TITLE = "weights of linear layers in int4"
NUMERICS = "precision"
SAVES = 0.85
PRIOR = 0.3
NEEDS = weight_only_int8.NEEDS | {"bf16"}
GIVES = frozenset({"half_precision"})
PACKAGES = ("torchao",)
PACKING = "tile_packed_to_4d"


def apply(draft: Draft, options: Options) -> None:
    """The module in bfloat16 between casts, with these weights.

    Raises:
        Refused: it has no large linear layer, or torchao cannot quantise it, or has no such packing.
    """
    from torchao.quantization import Int4WeightOnlyConfig

    try:
        config = Int4WeightOnlyConfig(group_size=128, int4_packing_format=PACKING)
    except TypeError as error:
        raise Refused(f"this torchao does not know the packing {PACKING}") from error
    draft.module = in_half_precision(draft.module, "bfloat16")
    weight_only_int8.quantise(draft, config)
