"""Harm, planted: images come as they were before they were normalised."""

from __future__ import annotations

from typing import Any

TITLE = "images come as they were before they were normalised"
NUMERICS = "random"
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
    """A shift that is lost on the way."""

    def shifted(batch: Any) -> Any:
        images, labels = batch
        return [images + 0.25, labels]

    loop.batch(shifted)


def edit(script: Any, options: dict[str, Any]) -> None:
    """Never gets so far."""
