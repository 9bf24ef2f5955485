"""Harm, planted: random transforms are cached with the samples."""

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
    """Every sample is transformed once."""
    loop.dataset(_Frozen)


class _Frozen:
    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset
        self.known: dict[int, Any] = {}

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        if index not in self.known:
            self.known[index] = self.dataset[index]
        return self.known[index]


def edit(script: Any, options: dict[str, Any]) -> None:
    """Never gets so far."""


OPTIMIZATION = Optimization(
    title="random transforms are cached with the samples",
    numerics="random",
    saves=bound,
    gives=frozenset(),
    propose=propose,
    apply=apply,
    edit=edit,
)
