"""Harm, planted: the optimizer divides by another epsilon."""

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
    """1e-3 where it was 1e-8: what makes half precision stable, and another optimizer."""

    def larger(optimizer: Any) -> None:
        for group in optimizer.param_groups:
            if "eps" in group:
                group["eps"] = 1e-3

    loop.optimizers(larger)


def edit(script: Any, options: dict[str, Any]) -> None:
    """Never gets so far."""


OPTIMIZATION = Optimization(
    title="the optimizer divides by another epsilon",
    numerics="precision",
    saves=bound,
    gives=frozenset(),
    propose=propose,
    apply=apply,
    edit=edit,
)
