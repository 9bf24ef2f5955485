"""Harm, planted: BatchNorm sees half batches."""

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
    """The model is called with the halves of a batch, one after the other."""

    def halved(model: Any) -> Any:
        import torch

        original = model.forward

        def forward(images: Any) -> Any:
            return (
                torch.cat([original(half) for half in images.chunk(2)])
                if model.training
                else original(images)
            )

        model.forward = forward

        def undo() -> None:
            model.forward = original

        return undo

    loop.model(halved)


def edit(script: Any, options: dict[str, Any]) -> None:
    """Never gets so far."""


OPTIMIZATION = Optimization(
    title="BatchNorm sees half batches",
    numerics="reassociated",
    saves=bound,
    gives=frozenset(),
    propose=propose,
    apply=apply,
    edit=edit,
)
