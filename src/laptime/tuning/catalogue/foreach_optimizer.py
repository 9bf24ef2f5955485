"""The optimizer works on lists of tensors instead of one after another.

Source: torch.optim, `foreach=True`; it is the default on GPUs, and not on the CPU.
Lies when: tensors are large: memory is read several times for what one loop would do at once.
"""

from __future__ import annotations

from typing import Any

from laptime.tuning.catalogue._optimizers import switch
from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.optimization import Options

TITLE = "optimizer on lists of tensors"
NUMERICS = "reassociated"
TOGGLE = "live"
NEEDS = frozenset({"!fused", "!foreach"})
GIVES = frozenset({"foreach_optimizer"})
CONFLICTS = frozenset({"fused"})
PRIOR = 0.2


def propose(loop_profile: LoopProfile) -> list[Options]:
    """Once, where torch does not do it by itself."""
    return [] if {"cuda", "xpu"} & loop_profile.facts else [{}]


def why_not(loop_profile: LoopProfile) -> str:
    """Where it is so already."""
    return "torch does so by default on this device"


def bound(loop_profile: LoopProfile, options: Options) -> float:
    """Two thirds of the optimizer."""
    return 2 / 3 * loop_profile.share("optimizer")


def apply(loop: Any, options: Options) -> None:
    """Every optimizer that has the switch, in place."""

    def convert(optimizer: Any) -> Any:
        if any("foreach" not in group for group in optimizer.param_groups):
            loop.refuse(f"{type(optimizer).__name__} has no foreach version")
        return switch(optimizer, fused=False, foreach=True)

    loop.optimizers(convert)


def edit(script: Any, options: Options) -> None:
    """An argument of the optimizer's call."""
    script.set_arguments("optimizer", foreach="True")
