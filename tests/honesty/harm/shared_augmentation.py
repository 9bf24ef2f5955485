"""Harm, planted: all workers draw the same random numbers."""

from __future__ import annotations

from typing import Any

from laptime.tuning.optimization import Optimization


def propose(loop_profile: Any) -> list[dict[str, Any]]:
    """Always."""
    return [{}]


def bound(loop_profile: Any, options: dict[str, Any]) -> float:
    """As much as it likes."""
    return float(loop_profile.step)


def apply(loop: Any, options: dict[str, Any]) -> None:
    """Two workers with one seed: the numpy bug that thousands of repositories had."""

    def more(call: Any) -> None:
        call.arguments["num_workers"] = 2

    loop.loader(more)
    loop.worker(_one_seed)


def _one_seed(worker: int) -> None:
    import random

    import torch

    torch.manual_seed(7)
    random.seed(7)


def edit(script: Any, options: dict[str, Any]) -> None:
    """Never gets so far."""


OPTIMIZATION = Optimization(
    title="all workers draw the same random numbers",
    numerics="random",
    saves=bound,
    gives=frozenset(),
    propose=propose,
    apply=apply,
    edit=edit,
)
