"""The switch board: which changes are on, and their callbacks called, with those that refuse taken off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from laptime.kit.errors import LaptimeError
from laptime.tuning.optimization import load
from laptime.tuning.trial.attached import Attached, rewritten
from laptime.tuning.trial.loop import Call, CannotApply

HOT = ("batch", "forward", "backward", "step", "zero_grad")
"""Kinds that are called in every step."""
_Hot = dict[str, list[tuple[Attached, Callable[..., Any]]]]


class Board:
    """Changes that are on, in order.

    Attributes:
        changes: one `Attached` each. refused: those that could not be applied: {"name": ..., "why": ...}.
        left: what an undo could not give back, in words.
        hot: callbacks of the kinds HOT, flat, each with its owner.
    """

    def __init__(self, refused: list[dict[str, str]], left: list[str]) -> None:
        self.changes: list[Attached] = []
        self.refused = refused
        self.left = left
        self.hot: _Hot = {kind: [] for kind in HOT}
        self._names: dict[int, str] = {}

    def put(self, change: dict[str, Any], attached: Attached, *, live: bool) -> Attached | None:
        """Apply a change (`Recipe.to_json`) through `attached`; None when it cannot be."""
        name = str(change["name"])
        self._names[id(attached)] = name
        self.changes.append(attached)
        try:
            module = load(name)
            if live and getattr(module, "TOGGLE", "process") != "live":
                attached.refuse("it can only be on from the start of a process")
            module.apply(attached, dict(change.get("options") or {}))
        except (CannotApply, LaptimeError) as refusal:
            self.refuse(attached, str(refusal))
            return None
        except Exception as error:  # a file of somebody else's: the script goes on without it
            self.refuse(attached, f"{type(error).__name__}: {error}")
            return None
        self._gather()
        return attached

    def take_off(self, attached: Attached) -> None:
        """Undo one; safe when it is off already."""
        if attached not in self.changes:
            return
        self.changes.remove(attached)
        self.left += [f"{self._names[id(attached)]}: {why}" for why in attached.undo()]
        self._gather()

    def refuse(self, attached: Attached, why: str) -> None:
        """This change cannot be: take it off, and say so once."""
        note = {"name": self._names[id(attached)], "why": why}
        if note not in self.refused:
            self.refused.append(note)
        self.take_off(attached)

    def _gather(self) -> None:
        self.hot = {
            kind: [(each, callback) for each in self.changes for callback in each.callbacks[kind]]
            for kind in HOT
        }

    # Calling.

    def meet(self, kind: str, each: Any) -> None:
        """Something new: kind is model, optimizers or parallels."""
        for attached in list(self.changes):
            try:
                attached.meet(kind, each)
            except CannotApply as refusal:
                self.refuse(attached, str(refusal))
            except Exception as error:  # as in `put`: the script goes on without it
                self.refuse(attached, f"{type(error).__name__}: {error}"[:500])

    def rewrite(self, kind: str, call: Call) -> None:
        """A constructor call, changed in place: kind is loader, optimizer or parallel."""
        for attached in list(self.changes):
            before = dict(call.arguments)
            try:
                rewritten(attached.callbacks[kind], call)
            except CannotApply as refusal:
                call.arguments = before
                self.refuse(attached, str(refusal))

    def wrapped(self, dataset: Any) -> Any:
        """A map-style dataset with what changes put around it."""
        for attached in list(self.changes):
            before = dataset
            try:
                for wrap in attached.callbacks["dataset"]:
                    dataset = wrap(dataset)
            except CannotApply as refusal:
                dataset = before
                self.refuse(attached, str(refusal))
        return dataset

    def fold(self, kind: str, value: Any) -> Any:
        """What the callbacks make of a value, one after another: kind is batch or backward."""
        for attached, change in self.hot[kind]:
            try:
                value = change(value)
            except CannotApply as refusal:
                self.refuse(attached, str(refusal))
        return value

    def zeroing(self, arguments: dict[str, Any]) -> None:
        """Keyword arguments of zero_grad, changed in place."""
        for attached, rewrite in self.hot["zero_grad"]:
            try:
                rewrite(arguments)
            except CannotApply as refusal:
                self.refuse(attached, str(refusal))

    def around_step(self, optimizer: Any, run: Callable[[], Any]) -> Callable[[], Any]:
        """An optimizer's step with what changes put around it, the last outermost."""
        for _, around in self.hot["step"]:
            run = _around(around, optimizer, run)
        return run


def _around(around: Callable[..., Any], optimizer: Any, run: Callable[[], Any]) -> Callable[[], Any]:
    return lambda: around(optimizer, run)
