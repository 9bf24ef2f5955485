"""Shifts the seeds that a script sets by one number: other initial weights, order of data and dropout.

torch.manual_seed, random.seed and numpy.random.seed get the number added; the three are seeded with it when
the trial starts, or the module is imported. Generators that a script makes itself are left alone.
"""

from __future__ import annotations

import functools
import random
import sys
from collections.abc import Callable
from typing import Any

from laptime.instrument.importing import WhenImported


class SeedShift:
    """Shifts seeds by `shift`; `undo` gives back the very functions that were there."""

    def __init__(self, shift: int) -> None:
        self._shift = shift
        self._originals: list[tuple[Any, str, Any]] = []
        self._is_inside = False
        self._import_hooks = [
            WhenImported("torch", self._torch),
            WhenImported("numpy.random", lambda: self._seed_and_shift(sys.modules["numpy.random"], "seed")),
        ]

    def install(self) -> None:
        """Seed the generators, and shift the seeds that the script sets."""
        self._seed_and_shift(random, "seed")
        for import_hook in self._import_hooks:
            import_hook.install()

    def undo(self) -> list[str]:
        """Give everything back; returns what could not be, in words. Safe to call twice."""
        for import_hook in self._import_hooks:
            import_hook.remove()
        left = []
        for owner, name, original in reversed(self._originals):
            setattr(owner, name, original)
            if vars(owner)[name] is not original:
                left.append(f"{owner.__name__}.{name}")
        self._originals = []
        return left

    def _torch(self) -> None:
        torch: Any = sys.modules["torch"]
        self._seed_and_shift(torch, "manual_seed")
        for name in ("manual_seed", "manual_seed_all"):
            self._replace(torch.cuda, name)
        self._replace(torch.random, "manual_seed")

    def _seed_and_shift(self, owner: Any, name: str) -> None:
        getattr(owner, name)(self._shift % 2**32)
        self._replace(owner, name)

    def _replace(self, owner: Any, name: str) -> None:
        original: Callable[..., Any] = getattr(owner, name)

        @functools.wraps(original)
        def seed(*args: Any, **kwargs: Any) -> Any:
            # torch.manual_seed calls that of every device: shifted once.
            if self._is_inside:
                return original(*args, **kwargs)
            self._is_inside = True
            try:
                return original(*[self._shifted(value) for value in args], **self._named(kwargs))
            finally:
                self._is_inside = False

        self._originals.append((owner, name, original))
        setattr(owner, name, seed)

    def _named(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        return {key: self._shifted(value) if key in ("seed", "a") else value for key, value in kwargs.items()}

    def _shifted(self, seed: Any) -> Any:
        """A shifted number; None, words and arrays stay what they are."""
        if isinstance(seed, bool) or not hasattr(seed, "__index__"):
            return seed
        return (int(seed) + self._shift) % 2**32 if seed >= 0 else seed
