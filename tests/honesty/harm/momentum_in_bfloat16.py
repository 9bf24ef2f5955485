"""Harm, planted: momentum is kept in bfloat16."""

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
    """Computed with in single precision, kept in half of it."""

    def rounded(optimizer: Any, step: Any) -> Any:
        import torch

        def cast(dtype: Any) -> None:
            for state in optimizer.state.values():
                for key, value in state.items():
                    if isinstance(value, torch.Tensor) and value.dim():
                        state[key] = value.to(dtype)

        cast(torch.float32)
        result = step()
        cast(torch.bfloat16)
        return result

    loop.step(rounded)


def edit(script: Any, options: dict[str, Any]) -> None:
    """Never gets so far."""


OPTIMIZATION = Optimization(
    title="momentum is kept in bfloat16",
    numerics="precision",
    saves=bound,
    gives=frozenset(),
    propose=propose,
    apply=apply,
    edit=edit,
)
