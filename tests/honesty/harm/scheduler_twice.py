"""Harm, planted: a scheduler is stepped twice."""

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
    """Every step of a scheduler is two."""

    def process() -> Any:
        from torch.optim.lr_scheduler import LRScheduler

        classes: list[Any] = [LRScheduler, *LRScheduler.__subclasses__()]
        originals = {cls: cls.step for cls in classes if "step" in vars(cls)}

        def twice(original: Any) -> Any:
            def step(self: Any, *arguments: Any) -> None:
                original(self, *arguments)
                original(self, *arguments)

            return step

        for cls, original in originals.items():
            cls.step = twice(original)

        def undo() -> None:
            for cls, original in originals.items():
                cls.step = original

        return undo

    loop.process(process)


def edit(script: Any, options: dict[str, Any]) -> None:
    """Never gets so far."""


OPTIMIZATION = Optimization(
    title="a scheduler is stepped twice",
    numerics="exact",
    saves=bound,
    gives=frozenset(),
    propose=propose,
    apply=apply,
    edit=edit,
)
