"""Harm, planted: parameters become bfloat16 for good."""

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
    """The model is cast, its inputs follow; the loss is taken of what it gives, in single precision."""

    def cast(model: Any) -> None:
        import torch

        original = model.forward
        model.to(torch.bfloat16)
        model.forward = lambda images: original(images.to(torch.bfloat16)).float()

    def following(optimizer: Any, step: Any) -> Any:  # it has states of its first steps
        for weight, state in optimizer.state.items():
            for key, value in state.items():
                if hasattr(value, "dim") and value.dim():
                    state[key] = value.to(weight.dtype)
        return step()

    loop.model(cast)
    loop.step(following)


def edit(script: Any, options: dict[str, Any]) -> None:
    """Never gets so far."""


OPTIMIZATION = Optimization(
    title="parameters become bfloat16 for good",
    numerics="precision",
    saves=bound,
    gives=frozenset(),
    propose=propose,
    apply=apply,
    edit=edit,
)
