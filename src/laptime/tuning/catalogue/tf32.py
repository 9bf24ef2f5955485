"""TF32: float32 matrix products with 10 bits of mantissa on tensor cores.

Source: NVIDIA A100 whitepaper; torch.set_float32_matmul_precision. Convolutions use it by default already.
Lies when: the model is bound by memory, not by matrix products.
"""

from typing import Any

from laptime.tuning.catalogue._trainers import by_trainer
from laptime.tuning.optimization import LoopProfile, Options

TITLE = "TF32 matrix products"
NUMERICS = "precision"
SAVES = {"forward": 2 / 3, "backward": 2 / 3}
"""Two thirds of forward and backward: "up to 3x" on matrix products (Hugging Face, "Methods and tools for
efficient training on a single GPU")."""
TOGGLE = "live"
NEEDS = frozenset({"cuda", "tf32", "!tf32_on", "!autocast"})
GIVES = frozenset({"tf32_on"})
PRIOR = 0.6


def why_not(loop_profile: LoopProfile) -> str:
    if {"linear", "attention", "embedding"} & loop_profile.facts:
        return ""
    return "the trained models have no matrix products; convolutions use TF32 by default"


def apply(loop: Any, options: Options) -> None:
    def switch() -> Any:
        import torch

        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("high")
        return lambda: torch.set_float32_matmul_precision(before)

    loop.process(switch)


def edit(script: Any, options: Options) -> None:
    if not by_trainer(script, hf={"tf32": "True"}):
        script.at_start('torch.set_float32_matmul_precision("high")', "import torch")
