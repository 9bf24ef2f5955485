"""torch.compile with CUDA graphs: the whole step's kernels are launched at once.

Source: torch.compile, mode "reduce-overhead"; CUDA graphs need fixed addresses and fixed shapes.
Lies when: a step is much longer than its launches. A CUDA graph holds its memory until the process ends.
"""

from typing import Any

from laptime.tuning.catalogue import _bounds, _compiling
from laptime.tuning.optimization import LoopProfile, Options

TITLE = "torch.compile, launches as CUDA graphs"
NUMERICS = "reassociated"
NEEDS = frozenset({"cuda", "gcc", "!compiled", "!varying_shapes"})
GIVES = frozenset({"compiled"})
COMPILES = True
PRIOR = 0.4

MODE = {"mode": "reduce-overhead"}


def bound(loop_profile: LoopProfile, options: Options) -> float:
    """As of compile, or all the time that the host needs to start the kernels: whichever is more, at most
    nine tenths of forward and backward."""
    compute = loop_profile.share("forward", "backward", "other")
    launching = min(loop_profile.enqueue or 0.0, 0.9 * compute)
    return max(_bounds.compiled(loop_profile) * compute, launching)


def apply(loop: Any, options: Options) -> None:
    _compiling.apply(loop, MODE)


def edit(script: Any, options: Options) -> None:
    _compiling.edit(script, MODE)
