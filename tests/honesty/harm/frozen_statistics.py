"""Harm, planted: BatchNorm no longer learns its statistics."""

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
    """Its momentum is 0: the batches are counted as before."""

    def still(model: Any) -> Any:
        import torch

        norms = [each for each in model.modules() if isinstance(each, torch.nn.modules.batchnorm._BatchNorm)]
        before = [each.momentum for each in norms]
        for each in norms:
            each.momentum = 0.0

        def undo() -> None:
            for each, momentum in zip(norms, before, strict=True):
                each.momentum = momentum

        return undo

    loop.model(still)


def edit(script: Any, options: dict[str, Any]) -> None:
    """Never gets so far."""


OPTIMIZATION = Optimization(
    title="BatchNorm no longer learns its statistics",
    numerics="precision",
    saves=bound,
    gives=frozenset(),
    propose=propose,
    apply=apply,
    edit=edit,
)
