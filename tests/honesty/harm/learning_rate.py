"""Harm, planted: the learning rate is another one."""

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
    """Twice the rate."""

    def faster(optimizer: Any) -> None:
        for group in optimizer.param_groups:
            group["lr"] *= 2

    loop.optimizers(faster)


def edit(script: Any, options: dict[str, Any]) -> None:
    """Never gets so far."""


OPTIMIZATION = Optimization(
    title="the learning rate is another one",
    numerics="exact",
    saves=bound,
    gives=frozenset(),
    propose=propose,
    apply=apply,
    edit=edit,
)
