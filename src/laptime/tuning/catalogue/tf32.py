"""TF32: float32 matrix products with 10 bits of mantissa on tensor cores.

Source: NVIDIA A100 whitepaper; torch.set_float32_matmul_precision. Convolutions use it by default already.
Lies when: the model is bound by memory, not by matrix products."""

from typing import Any

from laptime.tuning.catalogue._trainers import by_trainer
from laptime.tuning.optimization import LoopProfile, Optimization, Options


def why_not(loop_profile: LoopProfile) -> str:
    has_some = {"linear", "attention", "embedding"} & loop_profile.facts
    return "" if has_some else "the trained models have no matrix products; convolutions use TF32 by default"


def apply(loop: Any, options: Options) -> None:
    def switch() -> Any:
        import torch

        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("high")
        return lambda: torch.set_float32_matmul_precision(before)

    loop.process(switch)


OPTIMIZATION = Optimization(
    title="TF32 matrix products",
    numerics="precision",
    # Two thirds of forward and backward: "up to 3x" on matrix products (Hugging Face, "Methods and tools for
    # efficient training on a single GPU").
    saves={"forward": 2 / 3, "backward": 2 / 3},
    live=True,
    needs=frozenset({"cuda", "tf32", "!tf32_on", "!autocast"}),
    gives=frozenset({"tf32_on"}),
    prior=0.6,
    why_not=why_not,
    switch=r"((allow|use|enable)_)?tf32",
    apply=apply,
    edit=lambda script, options: (
        by_trainer(script, hf={"tf32": "True"})
        or script.at_start('torch.set_float32_matmul_precision("high")', "import torch")
    ),
)
