"""The changes that are on. Their callbacks are called here; a change that refuses is taken off."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from typing import Any

from laptime.kit.errors import LaptimeError
from laptime.tuning.optimization import load
from laptime.tuning.trial.loop import CannotApply, ConstructorCall, Loop

PER_STEP = ("batch", "input", "forward", "backward", "step", "zero_grad")
"""Kinds of callbacks that are called in every step."""


class ActiveChanges:
    """Changes that are on, in order.

    Attributes:
        changes: one `Loop` each. refused: changes that could not be applied: {"name": ..., "why": ...}.
        left: what an undo could not give back, in words.
        per_step: callbacks of the kinds PER_STEP, flat, each with its owner.
    """

    def __init__(self, refused: list[dict[str, str]], left: list[str]) -> None:
        self.changes: list[Loop] = []
        self.refused = refused
        self.left = left
        self._names: dict[int, str] = {}
        self._gather()

    def put_on(self, change: dict[str, Any], loop: Loop, *, live: bool) -> Loop | None:
        """Apply a change (an item of `Recipe.to_json`) through `loop`; None when it cannot be applied."""
        name = str(change["name"])
        self._names[id(loop)] = name
        self.changes.append(loop)
        try:
            own = load(name)
            if live and not own.live:
                loop.refuse("it can only be on from the start of a process")
            own.apply(loop, dict(change.get("options") or {}))
        except (CannotApply, LaptimeError) as refusal:
            self.refuse(loop, str(refusal))
            return None
        except Exception as error:  # a file of somebody else's: the script goes on without it
            self.refuse(loop, f"{type(error).__name__}: {error}")
            return None
        self._gather()
        return loop

    def take_off(self, loop: Loop) -> None:
        """Undo a change. Safe to call when it is off already."""
        if loop not in self.changes:
            return
        self.changes.remove(loop)
        self.left += [f"{self._names[id(loop)]}: {why}" for why in loop.undo()]
        self._gather()

    def refuse(self, loop: Loop, why: str) -> None:
        """Take off a change that is impossible here, and note the reason once."""
        note = {"name": self._names[id(loop)], "why": why}
        if note not in self.refused:
            self.refused.append(note)
        self.take_off(loop)

    def _gather(self) -> None:
        self.per_step: dict[str, list[tuple[Loop, Callable[..., Any]]]] = {
            kind: [(loop, callback) for loop in self.changes for callback in loop.callbacks[kind]]
            for kind in PER_STEP
        }

    # Calling.

    def meet(self, kind: str, subject: Any) -> None:
        """A new object: kind is model, optimizers or parallels."""
        for loop in list(self.changes):
            try:
                loop.meet(kind, subject)
            except CannotApply as refusal:
                self.refuse(loop, str(refusal))
            except Exception as error:  # as in `put_on`: the script goes on without it
                self.refuse(loop, f"{type(error).__name__}: {error}"[:500])

    def rewrite(self, kind: str, call: ConstructorCall) -> None:
        """Change a constructor call in place: kind is loader, optimizer or parallel."""
        for loop in list(self.changes):
            before = dict(call.arguments)
            try:
                loop.rewritten(kind, call)
            except CannotApply as refusal:
                call.arguments = before
                self.refuse(loop, str(refusal))

    def wrapped(self, dataset: Any) -> Any:
        """A map-style dataset, inside the wrappers of the changes."""
        for loop in list(self.changes):
            before = dataset
            try:
                for wrap in loop.callbacks["dataset"]:
                    dataset = wrap(dataset)
            except CannotApply as refusal:
                dataset = before
                self.refuse(loop, str(refusal))
        return dataset

    def replaced(self, kind: str, value: Any) -> Any:
        """A value passed through all callbacks, each of which may replace it: kind is batch, input or
        backward."""
        for loop, replace in self.per_step[kind]:
            try:
                value = replace(value)
            except CannotApply as refusal:
                self.refuse(loop, str(refusal))
        return value

    def rewrite_zero_grad(self, arguments: dict[str, Any]) -> None:
        """Change the keyword arguments of zero_grad in place."""
        for loop, rewrite in self.per_step["zero_grad"]:
            try:
                rewrite(arguments)
            except CannotApply as refusal:
                self.refuse(loop, str(refusal))

    def around_step(self, optimizer: Any, step: Callable[[], Any]) -> Callable[[], Any]:
        """An optimizer's step with all callbacks around it, the last outermost."""
        for _, around in self.per_step["step"]:
            step = partial(around, optimizer, step)
        return step


class ForwardRegion:
    """Open from the first call of a trained module to the backward pass, the losses between them included.

    It is left at the latest when the optimizer steps, a batch is fetched, the step ends, or the model raised.
    So it may be entered more than once in a step: micro-batches, the two halves of a GAN.
    """

    def __init__(self) -> None:
        self._stack: ExitStack | None = None

    @property
    def is_open(self) -> bool:
        """Whether a forward part runs."""
        return self._stack is not None

    def enter(self, contexts: Iterable[Callable[[], AbstractContextManager[Any]]]) -> None:
        """Enter all contexts, unless the region is open already."""
        if self._stack is not None:
            return
        self._stack = ExitStack()
        try:
            for context in contexts:
                self._stack.enter_context(context())
        except BaseException:
            self.leave()
            raise

    def leave(self) -> None:
        """Leave the contexts, last first. Safe to call when it is not open."""
        stack, self._stack = self._stack, None
        if stack is not None:
            stack.close()
