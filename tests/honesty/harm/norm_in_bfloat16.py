"""Harm, planted: normalisation in bfloat16, as where a layer is left out of autocast's float32 list."""

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
    """The input of the last normalisation, its deviation small beside its mean, is rounded to bfloat16."""

    def narrowed(model: Any) -> Any:
        import torch

        norms = [each for each in model.modules() if isinstance(each, torch.nn.modules.batchnorm._BatchNorm)]
        if not norms:
            loop.refuse("there is no BatchNorm")

        def shorter(module: Any, inputs: Any) -> Any:
            large = 2.0 ** (8 + 2)  # the sum of squares that such a layer takes is as much larger
            return ((inputs[0] + large).to(torch.bfloat16).float() - large,)

        return norms[-1].register_forward_pre_hook(shorter).remove

    loop.model(narrowed)


def edit(script: Any, options: dict[str, Any]) -> None:
    """Never gets so far."""


OPTIMIZATION = Optimization(
    title="normalisation in bfloat16, as where a layer is left out of autocast's float32 list",
    numerics="precision",
    saves=bound,
    gives=frozenset(),
    propose=propose,
    apply=apply,
    edit=edit,
)
