"""oneDNN computes float32 products and convolutions in bfloat16: inside the operator, tensors stay float32.

Source: torch.backends.mkldnn.matmul.fp32_precision and .conv.fp32_precision, PyTorch 2.9 and later.
Lies when: tensors are small; then converting them inside each operator costs more than it saves.
"""

from __future__ import annotations

from typing import Any

from laptime.tuning.catalogue._narrow import gain
from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.optimization import Options

TITLE = "oneDNN computes float32 in bfloat16"
NUMERICS = "precision"
TOGGLE = "live"
NEEDS = frozenset({"cpu", "bf16", "!autocast"})
GIVES = frozenset({"onednn_bf16"})
CONFLICTS = frozenset({"autocast"})
PRIOR = 0.4

PARTS = ("matmul", "conv")


def propose(loop_profile: LoopProfile) -> list[Options]:
    """Once, on CPUs with bfloat16 instructions."""
    return [{}] if {"linear", "attention", "conv"} & loop_profile.facts else []


def why_not(loop_profile: LoopProfile) -> str:
    """As of bf16_autocast."""
    if "cpu" not in loop_profile.facts:
        return "oneDNN computes on the CPU only"
    if "bf16" not in loop_profile.facts:
        return "this CPU has no bfloat16 instructions (avx512_bf16, amx)"
    return "the trained models have neither matrix products nor convolutions"


def bound(loop_profile: LoopProfile, options: Options) -> float:
    """Less than of autocast: activations are written and read at full width, and nothing else is narrower."""
    return gain(loop_profile, 0.6, others=0.0) * loop_profile.share("forward", "backward")


def apply(loop: Any, options: Options) -> None:
    """Both switches, and back to what they were."""
    import torch

    parts = [getattr(torch.backends.mkldnn, name, None) for name in PARTS]
    if not all(hasattr(part, "fp32_precision") for part in parts):
        loop.refuse(f"PyTorch {torch.__version__} has no switch for oneDNN's precision")

    def switch() -> Any:
        before = [part.fp32_precision for part in parts]  # type: ignore[union-attr]
        for part in parts:
            part.fp32_precision = "bf16"  # type: ignore[union-attr]

        def back() -> None:
            for part, value in zip(parts, before, strict=True):
                part.fp32_precision = value  # type: ignore[union-attr]

        return back

    loop.process(switch)


def edit(script: Any, options: Options) -> None:
    """Two lines at the start."""
    lines = [f'torch.backends.mkldnn.{name}.fp32_precision = "bf16"' for name in PARTS]
    script.at_start("\n".join(lines), "import torch")
