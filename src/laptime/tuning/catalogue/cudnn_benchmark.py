"""cuDNN times its convolution algorithms for each shape and keeps the fastest.

Source: torch.backends.cudnn.benchmark, "Performance Tuning Guide".
Lies when: shapes vary: each new one is timed again.
"""

from __future__ import annotations

from typing import Any

from laptime.tuning.catalogue._trainers import by_trainer
from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.optimization import Options

TITLE = "cuDNN picks algorithms by timing"
NUMERICS = "reassociated"
TOGGLE = "live"
NEEDS = frozenset({"cuda", "conv", "!cudnn_benchmark_on", "!varying_shapes"})
GIVES = frozenset({"cudnn_benchmark_on"})
CONFLICTS: frozenset[str] = frozenset()
PRIOR = 0.2


def propose(loop_profile: LoopProfile) -> list[Options]:
    """Once, for convolutions of fixed shapes on CUDA."""
    return [{}]


def why_not(loop_profile: LoopProfile) -> str:
    """What is missing."""
    if not {"cuda", "conv"} <= loop_profile.facts:
        return "there are no convolutions on an NVIDIA GPU"
    if "varying_shapes" in loop_profile.facts:
        return "shapes vary from step to step: each would be timed"
    return "cudnn.benchmark is on already"


def bound(loop_profile: LoopProfile, options: Options) -> float:
    """A third of forward and backward."""
    return loop_profile.share("forward", "backward") / 3


def apply(loop: Any, options: Options) -> None:
    """torch's switch, and back to what it was."""

    def switch() -> Any:
        import torch

        cudnn: Any = torch.backends.cudnn
        before = cudnn.benchmark
        cudnn.benchmark = True

        def back() -> None:
            cudnn.benchmark = before

        return back

    loop.process(switch)


def edit(script: Any, options: Options) -> None:
    """Lightning's own switch, else one line at the start."""
    if not by_trainer(script, lightning={"benchmark": "True"}):
        script.at_start("torch.backends.cudnn.benchmark = True", "import torch")
