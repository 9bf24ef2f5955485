"""Sizes of a compiled model's inputs are dynamic from the start: not compiled again for each new shape.

By default the first new size recompiles, and only then the dimension counts as dynamic; up to eight
versions, then the model runs uncompiled.

Source: "Dynamic shapes", PyTorch manual: torch._dynamo.config.assume_static_by_default, recompile_limit.
Lies when: sizes differ a few times and then never again: kernels for known sizes are faster.
"""

from __future__ import annotations

from typing import Any

from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.optimization import Options

TITLE = "dynamic sizes in compiled code"
NUMERICS = "reassociated"
TOGGLE = "process"
NEEDS = frozenset({"compiled", "varying_shapes"})
GIVES = frozenset({"mark_dynamic"})
CONFLICTS: frozenset[str] = frozenset()
COMPILES = True
PRIOR = 0.3


def propose(loop_profile: LoopProfile) -> list[Options]:
    """Where the script itself compiles; a compiled model of ours is dynamic from the start."""
    return [{}] if {"compiled", "varying_shapes"} <= loop_profile.facts else []


def why_not(loop_profile: LoopProfile) -> str:
    """Nothing is compiled, or always for the same sizes."""
    if "compiled" not in loop_profile.facts:
        return "the script compiles nothing"
    return "shapes are the same in every step"


def bound(loop_profile: LoopProfile, options: Options) -> float:
    """All but a tenth of forward and backward: a step that compiles is nothing but that."""
    return 0.9 * loop_profile.share("forward", "backward")


def apply(loop: Any, options: Options) -> None:
    """One switch of the compiler, and back."""

    def switch() -> Any:
        import torch._dynamo

        config: Any = torch._dynamo.config
        before = config.assume_static_by_default
        config.assume_static_by_default = False

        def back() -> None:
            config.assume_static_by_default = before

        return back

    loop.process(switch)


def edit(script: Any, options: Options) -> None:
    """The same line at the start."""
    script.at_start(
        "torch._dynamo.config.assume_static_by_default = False", "import torch", "import torch._dynamo"
    )
