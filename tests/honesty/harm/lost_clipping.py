"""Harm, planted: gradients are no longer clipped."""

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
    """The norm that gradients are clipped to is without end."""

    def process() -> Any:
        import torch
        from torch.nn.utils import clip_grad

        original = torch.nn.utils.clip_grad_norm_

        def unclipped(parameters: Any, max_norm: float, *rest: Any, **more: Any) -> Any:
            return original(parameters, float("inf"), *rest, **more)

        places: tuple[Any, ...] = (torch.nn.utils, clip_grad)
        for place in places:
            place.clip_grad_norm_ = unclipped

        def undo() -> None:
            for place in places:
                place.clip_grad_norm_ = original

        return undo

    loop.process(process)


def edit(script: Any, options: dict[str, Any]) -> None:
    """Never gets so far."""


OPTIMIZATION = Optimization(
    title="gradients are no longer clipped",
    numerics="exact",
    saves=bound,
    gives=frozenset(),
    propose=propose,
    apply=apply,
    edit=edit,
)
