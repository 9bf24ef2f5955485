"""The places in the script's loop that an optimization can attach to: `apply(loop, options)` of every file in
`catalogue/` is given a `Loop`.

`Loop.undo` takes everything off again, last first. A change with TOGGLE live may be put on while the loop
runs: models, optimizers and parallel modules that exist by then are handed to its callbacks at once.
Callbacks import torch themselves, and may return a function without arguments that undoes what they did."""

import os
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from laptime.tuning.loop_profile import Site

Undo = Callable[[], None]
KINDS = (
    *("loader", "worker", "dataset", "optimizer", "optimizers", "model", "parallel", "parallels"),
    *("batch", "input", "forward", "backward", "step", "zero_grad"),
)
"""Kinds of callbacks: the names of the methods of `Loop` that attach them."""


def replace_attr(owner: Any, name: str, value: Any) -> Undo:
    """Set an attribute; the result sets it back."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    return lambda: setattr(owner, name, before)


class CannotApply(Exception):
    """The change is impossible in this loop; the text says why. The trial goes on without it."""


@dataclass
class ConstructorCall:
    """A constructor call of the script, with its arguments by name; changes rewrite them in place."""

    kind: str  # class that is constructed: DataLoader, AdamW, DistributedDataParallel
    cls: Any  # the class itself
    arguments: dict[str, Any] = field(default_factory=dict)  # by name, without those that the script left out
    index: int = 0  # which call of its kind, from 0
    site: Site | None = None  # where the user's source makes the call
    # modules that have a name there, for an optimizer. `source_sites.of_call` fills in both while a trial
    # diagnoses.
    names: dict[str, Any] = field(default_factory=dict)


class Loop:
    """The attachment points for one change, and what it has attached. callbacks: by kind, in the order in
    which they were attached; `hooks.active_changes` calls them. device: type of the device that the trained
    model is on: cpu, cuda; "" before it is known."""

    def __init__(
        self,
        *,
        live: bool = False,
        models: Iterable[Any] = (),
        optimizers: Iterable[Any] = (),
        parallels: Iterable[Any] = (),
        device: str = "",
    ) -> None:
        """For a loop that has these objects already; `live`: put on between two steps."""
        self.callbacks: dict[str, list[Callable[..., Any]]] = {kind: [] for kind in KINDS}
        self.device = device
        self._live = live
        self._existing = {"model": [*models], "optimizers": [*optimizers], "parallels": [*parallels]}
        self._undos: list[Undo] = []

    # What optimizations call.

    def process(self, do: Callable[[], Undo | None]) -> None:
        """Call `do` now, for switches of the whole process; torch is imported already."""
        self._remember_undo(do())

    def set_attribute(self, owner: Any, name: str, value: Any) -> None:
        """Set an attribute now, such as a switch of torch's; it is put back in the end."""
        self.process(lambda: replace_attr(owner, name, value))

    def set_environment(self, name: str, value: str) -> None:
        """Set a variable for this process and those that it starts; it is put back in the end."""
        before = os.environ.get(name)
        os.environ[name] = value

        def back() -> None:
            if before is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = before

        self.process(lambda: back)

    def loader(self, rewrite: Callable[[ConstructorCall], None]) -> None:
        """Before the script constructs a DataLoader. Only from a process's start."""
        self._attach_at_start("loader", rewrite)

    def worker(self, start: Callable[[int], None]) -> None:
        """In every loader worker, before the script's own worker_init_fn. Gets the worker's number; must
        pickle. Only from a process's start."""
        self._attach_at_start("worker", start)

    def dataset(self, wrap: Callable[[Any], Any]) -> None:
        """Replace the dataset of every map-style DataLoader by what `wrap` returns. Only from a process's
        start."""
        self._attach_at_start("dataset", wrap)

    def optimizer(self, rewrite: Callable[[ConstructorCall], None]) -> None:
        """Before the script constructs an optimizer. Only from a process's start."""
        self._attach_at_start("optimizer", rewrite)

    def parallel(self, rewrite: Callable[[ConstructorCall], None]) -> None:
        """Before the script constructs a DistributedDataParallel; refused when there is one already."""
        if self._existing["parallels"]:
            self.refuse("DistributedDataParallel is there already")
        self.callbacks["parallel"].append(rewrite)

    def optimizers(self, do: Callable[[Any], Undo | None]) -> None:
        """Call back with every optimizer, after its construction."""
        self._attach_to_each("optimizers", do)

    def model(self, do: Callable[[Any], Undo | None]) -> None:
        """Call back with every outermost trained module, once, before its first call with gradients."""
        self._attach_to_each("model", do)

    def parallels(self, do: Callable[[Any], Undo | None]) -> None:
        """Call back with every DistributedDataParallel, after its construction."""
        self._attach_to_each("parallels", do)

    def batch(self, convert: Callable[[Any], Any]) -> None:
        """Replace every batch of a training loader, on its way to the script."""
        self.callbacks["batch"].append(convert)

    def input(self, convert: Callable[[Any], Any]) -> None:
        """Convert every positional input of a trained model right in front of it, in evaluation, too. Where
        samples of two recipes are compared, they are compared as converted."""
        self.callbacks["input"].append(convert)

        def hook(model: Any, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
            return tuple(map(convert, inputs))

        self.model(lambda model: model.register_forward_pre_hook(hook).remove)

    def forward(self, context: Callable[[], AbstractContextManager[Any]]) -> None:
        """Around the forward part of each step: entered before the first outermost module is called with
        gradients enabled, left when a backward pass begins or the step ends. So losses are inside."""
        self.callbacks["forward"].append(context)

    def backward(self, scale: Callable[[Any], Any]) -> None:
        """Replace the tensor that a backward pass starts from (loss scaling)."""
        self.callbacks["backward"].append(scale)

    def step(self, around: Callable[[Any, Callable[[], Any]], Any]) -> None:
        """Call `around(optimizer, step)` in place of `optimizer.step()`; it calls `step()`, or lets a
        GradScaler do so."""
        self.callbacks["step"].append(around)

    def zero_grad(self, rewrite: Callable[[dict[str, Any]], None]) -> None:
        """Rewrite the keyword arguments of every optimizer.zero_grad and Module.zero_grad."""
        self.callbacks["zero_grad"].append(rewrite)

    def refuse(self, why: str) -> None:
        """This change cannot be applied here. Raises CannotApply: always."""
        raise CannotApply(why)

    # What the trial calls.

    def meet(self, kind: str, subject: Any) -> None:
        """Hand a new model, optimizer or parallel module to the callbacks that wait for it."""
        for do in self.callbacks[kind]:
            self._remember_undo(do(subject))

    def rewritten(self, kind: str, call: ConstructorCall) -> ConstructorCall:
        """The call, with its arguments rewritten in place: kind is loader, optimizer or parallel."""
        for rewrite in self.callbacks[kind]:
            rewrite(call)
        return call

    def undo(self) -> list[str]:
        """Take everything off, last first; returns what could not be undone, in words."""
        failures = []
        self.callbacks = {kind: [] for kind in KINDS}
        while self._undos:
            try:
                self._undos.pop()()
            except Exception as error:
                failures.append(f"{type(error).__name__}: {error}")
        return failures

    def _attach_at_start(self, kind: str, callback: Callable[..., Any]) -> None:
        if self._live:
            self.refuse(f"{kind} can only be changed from the start of a process on")
        self.callbacks[kind].append(callback)

    def _attach_to_each(self, kind: str, do: Callable[[Any], Undo | None]) -> None:
        self.callbacks[kind].append(do)
        for subject in self._existing[kind]:
            self._remember_undo(do(subject))

    def _remember_undo(self, undo: Undo | None) -> None:
        if undo is not None:
            self._undos.append(undo)
