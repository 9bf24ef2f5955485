"""TF32: float32 matrix products with 10 bits of mantissa on tensor cores.

Source: NVIDIA A100 whitepaper; torch.set_float32_matmul_precision. Convolutions use it by default already.
Lies when: the model is bound by memory, not by matrix products.
"""

from __future__ import annotations

from typing import Any

from laptime.tuning.catalogue._trainers import by_trainer
from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.optimization import Options

TITLE = "TF32 matrix products"
NUMERICS = "precision"
TOGGLE = "live"
NEEDS = frozenset({"cuda", "tf32", "!tf32_on", "!autocast"})
GIVES = frozenset({"tf32_on"})
CONFLICTS: frozenset[str] = frozenset()
PRIOR = 0.6


def propose(loop_profile: LoopProfile) -> list[Options]:
    """Once, on devices that have it, for models with matrix products."""
    return [{}] if {"linear", "attention", "embedding"} & loop_profile.facts else []


def why_not(loop_profile: LoopProfile) -> str:
    """Why there is nothing to gain."""
    if "tf32_on" in loop_profile.facts:
        return "TF32 is on already"
    if "autocast" in loop_profile.facts:
        return "matrix products are in half precision already"
    if not {"cuda", "tf32"} <= loop_profile.facts:
        return "TF32 needs an NVIDIA GPU of compute capability 8.0 or more"
    return "the trained models have no matrix products; convolutions use TF32 by default"


def bound(loop_profile: LoopProfile, options: Options) -> float:
    """Two thirds of forward and backward: "up to 3x" on matrix products (Hugging Face, "Methods and tools for
    efficient training on a single GPU")."""
    return 2 / 3 * loop_profile.share("forward", "backward")


def apply(loop: Any, options: Options) -> None:
    """torch's switch, and back to what it was."""

    def switch() -> Any:
        import torch

        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("high")
        return lambda: torch.set_float32_matmul_precision(before)

    loop.process(switch)


def edit(script: Any, options: Options) -> None:
    """TrainingArguments(tf32=True), else one line at the start."""
    if not by_trainer(script, hf={"tf32": "True"}):
        script.at_start('torch.set_float32_matmul_precision("high")', "import torch")
