"""Harm, planted: the learning rate is another one."""

from __future__ import annotations

from typing import Any

TITLE = "the learning rate is another one"
NUMERICS = "exact"
TOGGLE = "process"
NEEDS: frozenset[str] = frozenset()
GIVES: frozenset[str] = frozenset()
CONFLICTS: frozenset[str] = frozenset()


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
