"""torch.compile that times several kernels for each matrix product and takes the fastest.

Source: torch.compile, mode "max-autotune".
Lies when: the run is short: it compiles for minutes.
"""

from __future__ import annotations

from typing import Any

from laptime.tuning.catalogue._compiling import cannot_compile, compile_models, edit_compile, gain
from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.optimization import Options

TITLE = "torch.compile, kernels picked by timing"
NUMERICS = "reassociated"
TOGGLE = "process"
NEEDS = frozenset({"gcc", "!compiled", "!varying_shapes"})
GIVES = frozenset({"compiled"})
CONFLICTS: frozenset[str] = frozenset()
COMPILES = True
PRIOR = 0.25


def propose(loop_profile: LoopProfile) -> list[Options]:
    """With CUDA graphs first, as torch does it by default; without them where there is no GPU."""
    if not {"linear", "attention", "conv"} & loop_profile.facts:
        return []
    graphs: list[Options] = [{"mode": "max-autotune"}] if "cuda" in loop_profile.facts else []
    return [*graphs, {"mode": "max-autotune-no-cudagraphs"}]


def why_not(loop_profile: LoopProfile) -> str:
    """There is something to pick from for matrix products and convolutions only."""
    if "varying_shapes" in loop_profile.facts:
        return "shapes vary from step to step: kernels would be timed for each"
    return cannot_compile(loop_profile) or "the trained models have neither matrix products nor convolutions"


def bound(loop_profile: LoopProfile, options: Options) -> float:
    """As of compile, and a tenth more for the picked kernels."""
    return (0.1 + gain(loop_profile)) * loop_profile.share("forward", "backward", "other")


def apply(loop: Any, options: Options) -> None:
    """Every trained model, in place."""
    compile_models(loop, mode=options["mode"])


def edit(script: Any, options: Options) -> None:
    """One line behind the optimizer, or the trainer's switch."""
    edit_compile(script, mode=options["mode"])
