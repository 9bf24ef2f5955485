"""What a trial does with the script's loop. One class a mode: `conductor.Race`, `differential.Differential`,
`witness.Witness`; `__main__` picks it by `Plan.mode` and gives it the plan and the points.

    mode = MODES[plan.mode](plan, points)     points.listen(mode)

All methods are called on the thread of the loop. `instrument.session.Stop` ends the script; a mode raises
it through
`points.stop()` at a boundary.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol


class Mode(Protocol):
    """Told of everything that the loop does; may stand in between."""

    def fetch(self, loader: Any, take: Callable[[], Any]) -> Any:
        """A loader's iterator is asked for a batch: the batch, usually `take()`. StopIteration is passed
        through."""

    def forward(self, module: Any) -> None:
        """An outermost module is about to be called, gradients enabled or not."""

    def backward(self, root: Any, run: Callable[[], Any]) -> Any:
        """A backward pass from `root` (a tensor, or what torch.autograd.backward was given); usually
        `run()`."""

    def step(self, optimizer: Any, run: Callable[[], Any]) -> Any:
        """An optimizer's step; usually `run()`."""

    def boundary(self, *, ended: bool, begins: bool) -> None:
        """Between two steps, before the next fetch. ended: a whole step lies behind; begins: another one
        follows."""

    def finish(self) -> None:
        """The script has ended, by us or by itself: write what is known. Called once, whatever happens."""


class Points(Protocol):
    """What a mode finds: the loop's objects, its clock, and the switch board of changes. Implemented by
    `points`.

    Attributes:
        models: outermost modules that were called with gradients enabled, in order; optimizers: that have
            stepped.
        loaders: DataLoaders whose batches went into training; calls: constructor calls of the script
            (`loop.Call`: DataLoader, optimizers, DistributedDataParallel, TrainingArguments, Trainer),
            arguments as the
            SCRIPT gave them, before any change.
        phases: `instrument.phases.PhaseClock`. device: `instrument.device.Device`. steps:
            `instrument.steps.Steps`.
        refused: changes that could not be applied. trial: `result.Trial`, written at the end by `__main__`;
            a mode fills in what it knows.
        epoch_start: nanoseconds that the loader took, right before the first step of an epoch, to make an
            iterator and start its workers; 0 before other steps.
    """

    models: list[Any]
    optimizers: list[Any]
    loaders: list[Any]
    calls: list[Any]
    phases: Any
    device: Any
    steps: Any
    refused: list[dict[str, str]]
    trial: Any
    epoch_start: int

    def put_on(self, changes: list[dict[str, Any]]) -> Any:
        """Apply live changes now; gives a handle."""

    def take_off(self, handle: Any) -> None:
        """Undo what a handle stands for."""

    def refuses(self, handle: Any, changes: list[dict[str, Any]]) -> bool:
        """Whether not all of these changes, put on as `handle`, are still on."""

    def unscaled(self, root: Any) -> Any:
        """What a backward pass starts from, before the script's own GradScaler has scaled it."""

    def stop(self) -> None:
        """End the script: raises `instrument.session.Stop`; at the fourth time the process ends at once."""
