"""torch.compile with CUDA graphs: the whole step's kernels are launched at once.

Source: torch.compile, mode "reduce-overhead"; CUDA graphs need fixed addresses and fixed shapes.
Lies when: a step is long beside its launches; and memory of a graph is held for good.
"""

from __future__ import annotations

from typing import Any

from laptime.tuning.catalogue._compiling import cannot_compile, compile_models, edit_compile, gain
from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.optimization import Options

TITLE = "torch.compile, launches as CUDA graphs"
NUMERICS = "reassociated"
TOGGLE = "process"
NEEDS = frozenset({"cuda", "gcc", "!compiled", "!varying_shapes"})
GIVES = frozenset({"compiled"})
CONFLICTS: frozenset[str] = frozenset()
COMPILES = True
PRIOR = 0.4
MODE = "reduce-overhead"


def propose(loop_profile: LoopProfile) -> list[Options]:
    """Once, where shapes are fixed."""
    return [{}]


def why_not(loop_profile: LoopProfile) -> str:
    """CUDA graphs are for CUDA, and for fixed shapes."""
    if "cuda" not in loop_profile.facts:
        return "CUDA graphs need an NVIDIA GPU"
    if "varying_shapes" in loop_profile.facts:
        return "shapes vary from step to step: each would be recorded as a graph of its own"
    return cannot_compile(loop_profile)


def bound(loop_profile: LoopProfile, options: Options) -> float:
    """As of compile, or all the time that the host needs to start the kernels: whichever is more, at most
    nine tenths of forward and backward."""
    compute = loop_profile.share("forward", "backward", "other")
    launching = min(loop_profile.enqueue or 0.0, 0.9 * compute)
    return max(gain(loop_profile) * compute, launching)


def apply(loop: Any, options: Options) -> None:
    """Every trained model, in place."""
    compile_models(loop, mode=MODE)


def edit(script: Any, options: Options) -> None:
    """One line behind the optimizer, or the trainer's switch."""
    edit_compile(script, mode=MODE)
