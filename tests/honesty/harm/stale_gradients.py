"""Harm, planted: gradients of the last step are not cleared."""

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
    """To each gradient that of the step before is added."""
    before: dict[int, Any] = {}

    def stale(optimizer: Any, step: Any) -> Any:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    fresh = parameter.grad.clone()
                    parameter.grad.add_(before.get(id(parameter), fresh))
                    before[id(parameter)] = fresh
        return step()

    loop.step(stale)


def edit(script: Any, options: dict[str, Any]) -> None:
    """Never gets so far."""


OPTIMIZATION = Optimization(
    title="gradients of the last step are not cleared",
    numerics="precision",
    saves=bound,
    gives=frozenset(),
    propose=propose,
    apply=apply,
    edit=edit,
)
