"""oneDNN computes float32 products and convolutions in bfloat16: inside the operator, tensors stay float32.

Source: torch.backends.mkldnn.matmul.fp32_precision and .conv.fp32_precision, PyTorch 2.9 and later.
Lies when: tensors are small; then converting them inside each operator costs more than it saves."""

from typing import Any

from laptime.tuning.catalogue import _bounds
from laptime.tuning.optimization import LoopProfile, Optimization, Options

PARTS = ("matmul", "conv")
why_not = _bounds.no_products


def bound(loop_profile: LoopProfile, options: Options) -> float:
    """Less than of autocast: activations are written and read at full width, and nothing else is narrower."""
    return _bounds.narrower(loop_profile, 0.6, others=0.0) * loop_profile.share("forward", "backward")


def apply(loop: Any, options: Options) -> None:
    import torch

    parts = [getattr(torch.backends.mkldnn, name, None) for name in PARTS]
    if not all(hasattr(part, "fp32_precision") for part in parts):
        loop.refuse(f"PyTorch {torch.__version__} has no switch for oneDNN's precision")
    for part in parts:
        loop.set_attribute(part, "fp32_precision", "bf16")


def edit(script: Any, options: Options) -> None:
    lines = [f'torch.backends.mkldnn.{name}.fp32_precision = "bf16"' for name in PARTS]
    script.at_start("\n".join(lines), "import torch")


OPTIMIZATION = Optimization(
    title="oneDNN computes float32 in bfloat16",
    numerics="precision",
    saves=bound,
    live=True,
    needs=frozenset({"cpu", "bf16", "!autocast"}),
    conflicts=frozenset({"autocast"}),
    prior=0.4,
    why_not=why_not,
    apply=apply,
    edit=edit,
)
