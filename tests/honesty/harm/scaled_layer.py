"""Harm, planted: the gradient of one layer is a tenth longer."""

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
    """That of the last layer's weight."""

    def scaled(model: Any) -> Any:
        last = [each for each in model.parameters() if each.dim() > 1][-1]
        return last.register_hook(lambda gradient: gradient * 1.1).remove

    loop.model(scaled)


def edit(script: Any, options: dict[str, Any]) -> None:
    """Never gets so far."""


OPTIMIZATION = Optimization(
    title="the gradient of one layer is a tenth longer",
    numerics="precision",
    saves=bound,
    gives=frozenset(),
    propose=propose,
    apply=apply,
    edit=edit,
)
