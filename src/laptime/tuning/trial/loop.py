"""What an optimization can attach to in the script's loop. `apply` of every file in `catalogue/` is given
one.

Everything attached through one Loop is taken off by its `undo`, last first. A change that is put on while
the loop runs
(TOGGLE live) is given a Loop, too: what exists already (models, optimizers, the process) is handed to its
callbacks at
once. Callbacks may return a function without arguments that undoes what they did; they import torch
themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

Undo = Callable[[], None]


class CannotApply(Exception):
    """The change is impossible in this loop; the text says why. The trial goes on without it and reports
    it."""


@dataclass
class Call:
    """A constructor call of the script's, its arguments by name as its signature binds them; to be changed
    in place.

    Attributes:
        kind: class or function that is called: DataLoader, AdamW, DistributedDataParallel.
        cls: the class. arguments: by name, without those that were not given.
        index: which call of its kind in the script, from 0.
        site: fields of `loop_profile.Site`: where the user's source calls it. names: of the modules that are
            known there, for an optimizer. Both are filled by `sites.of_call`, which points call for every
            Call while a trial diagnoses.
    """

    kind: str
    cls: Any
    arguments: dict[str, Any] = field(default_factory=dict)
    index: int = 0
    site: dict[str, Any] | None = None
    names: dict[str, Any] = field(default_factory=dict)


class Loop(Protocol):
    """Attachment points. Implemented by `trial.points`, and by `testing.loops` for tests.

    Attributes:
        device: type of the device that the trained model is on, once known: cpu, cuda; "" before.
    """

    device: str

    def process(self, do: Callable[[], Undo | None]) -> None:
        """Now, or as soon as the script has imported torch: switches of the whole process."""

    def loader(self, rewrite: Callable[[Call], None]) -> None:
        """Before a DataLoader of the script is made (not: one that torch makes for itself). Only from a
        process's start."""

    def worker(self, start: Callable[[int], None]) -> None:
        """In every loader worker, before the script's own worker_init_fn; gets the worker's number. Must
        pickle."""

    def dataset(self, wrap: Callable[[Any], Any]) -> None:
        """The dataset of every map-style DataLoader of the script, replaced by what `wrap` gives."""

    def optimizer(self, rewrite: Callable[[Call], None]) -> None:
        """Before an optimizer is made. Only from a process's start."""

    def optimizers(self, do: Callable[[Any], Undo | None]) -> None:
        """With every optimizer, after it was made."""

    def model(self, do: Callable[[Any], Undo | None]) -> None:
        """With every outermost trained module, once, before its first call with gradients enabled."""

    def parallel(self, rewrite: Callable[[Call], None]) -> None:
        """Before a DistributedDataParallel is made."""

    def parallels(self, do: Callable[[Any], Undo | None]) -> None:
        """With every DistributedDataParallel, after it was made."""

    def batch(self, convert: Callable[[Any], Any]) -> None:
        """What a training loader gives, on its way to the script."""

    def forward(self, context: Callable[[], AbstractContextManager[Any]]) -> None:
        """Around the forward part of each step: entered before the first outermost module is called with
        gradients
        enabled, left when a backward pass begins (or the step ends). So losses are inside."""

    def backward(self, scale: Callable[[Any], Any]) -> None:
        """The tensor that a backward pass starts from, replaced by what `scale` gives (loss scaling)."""

    def step(self, around: Callable[[Any, Callable[[], Any]], Any]) -> None:
        """`around(optimizer, step)` in place of `optimizer.step()`; it calls `step()` or leaves it
        (GradScaler)."""

    def zero_grad(self, rewrite: Callable[[dict[str, Any]], None]) -> None:
        """Keyword arguments of every optimizer.zero_grad and Module.zero_grad."""

    def refuse(self, why: str) -> None:
        """This change cannot be applied here; raises CannotApply."""
