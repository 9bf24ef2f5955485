"""Harm, planted: weight decay is lost."""

from __future__ import annotations

from typing import Any

TITLE = "weight decay is lost"
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
    """No decay."""

    def drop(call: Any) -> None:
        call.arguments["weight_decay"] = 0.0

    loop.optimizer(drop)


def edit(script: Any, options: dict[str, Any]) -> None:
    """Never gets so far."""
