"""Numbers below float32's normal range count as zero: a CPU is up to a hundred times slower on them.

Source: torch.set_flush_denormal.
Lies when: denormals appear late in training, as weights decay: a few steps at the start show nothing.
"""

from __future__ import annotations

from typing import Any

from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.optimization import Options

TITLE = "denormal numbers count as zero"
NUMERICS = "reassociated"
TOGGLE = "process"
NEEDS = frozenset({"cpu"})
GIVES = frozenset({"flush_denormal"})
CONFLICTS: frozenset[str] = frozenset()
PRIOR = 0.3

MATTERS = 1e-4
"""Share of elements from which on it is worth a try."""


def look(points: Any) -> dict[str, float]:
    """The share of denormal elements among parameters, gradients and optimizer state."""
    denormal, every = 0, 0
    for tensor in _tensors(points):
        tiny = tensor.detach().abs()
        denormal += int(((tiny > 0) & (tiny < 1.1754943508222875e-38)).sum())
        every += tensor.numel()
    return {"share": denormal / every if every else 0.0}


def propose(loop_profile: LoopProfile) -> list[Options]:
    """Where there are any."""
    return [{}] if _share(loop_profile) >= MATTERS else []


def why_not(loop_profile: LoopProfile) -> str:
    """There are none."""
    if "cpu" not in loop_profile.facts:
        return "only CPUs are slow on denormal numbers"
    return "there are no denormal numbers to speak of in parameters, gradients or optimizer state"


def bound(loop_profile: LoopProfile, options: Options) -> float:
    """The part of computing that goes into denormals, each a hundred times as slow as another number."""
    share = _share(loop_profile)
    part = 100 * share / (100 * share + 1 - share)
    return part * loop_profile.share("forward", "backward", "optimizer")


def apply(loop: Any, options: Options) -> None:
    """The switch of this thread, before torch's other threads are made: they inherit it."""

    def switch() -> Any:
        import torch

        if not torch.set_flush_denormal(True):
            loop.refuse("this CPU cannot flush denormal numbers")
        return lambda: torch.set_flush_denormal(False)

    loop.process(switch)


def edit(script: Any, options: Options) -> None:
    """One line at the start."""
    script.at_start("torch.set_flush_denormal(True)", "import torch")


def _share(loop_profile: LoopProfile) -> float:
    found = loop_profile.details.get("flush_denormal") or {}
    return float(found.get("share", 0.0))


def _tensors(points: Any) -> Any:
    import torch

    for model in points.models:
        for each in model.parameters():
            yield from (each, each.grad) if each.grad is not None else (each,)
    for optimizer in points.optimizers:
        for state in optimizer.state.values():
            for value in state.values():
                if torch.is_tensor(value) and value.is_floating_point() and not value.is_sparse:
                    yield value
