"""Which part of a step runs now, and how long each part took. Nanoseconds of the host's clock."""

from __future__ import annotations

from threading import get_ident
from time import perf_counter_ns
from typing import Any

DATA, FORWARD, BACKWARD, OPTIMIZER = range(4)
NAMES = ("data", "forward", "backward", "optimizer")
NONE = -1


class PhaseClock:
    """Adds up the phases of one thread; each counts without those inside it.

    One phase runs at a time, the outermost: a forward pass inside a backward pass (activation checkpointing)
    is backward, a model called by the dataset is data. Only an optimizer with a closure has phases inside.

    Attributes:
        current: the running phase, or NONE.
        is_closed: whether nothing that begins now can count; the one thing that every module call asks.
        totals: nanoseconds of each phase since the last `cut`, without a running one.
        annotate: whether every phase is written into the trace that is being recorded.
    """

    __slots__ = ("_closure", "_ranges", "_since", "_thread", "annotate", "current", "is_closed", "totals")

    def __init__(self) -> None:
        self.current = NONE
        self.is_closed = False
        self.totals = [0, 0, 0, 0]
        self.annotate = False
        self._closure = False
        self._since = 0
        self._thread = get_ident()
        self._ranges: list[Any] = []

    def is_free_for(self, phase: int) -> bool:
        """Whether a phase that begins now counts: on the thread of the loop, and not inside another."""
        if self.is_closed or (self.current == OPTIMIZER and phase not in (FORWARD, BACKWARD)):
            return False
        return get_ident() == self._thread

    def enter(self, phase: int) -> bool:
        """A phase begins; False where it does not count (`is_free_for`)."""
        if self.is_closed or (self.current == OPTIMIZER and phase not in (FORWARD, BACKWARD)):
            return False
        if get_ident() != self._thread:
            return False
        if self.annotate:
            from torch import profiler

            annotation: Any = profiler.record_function(f"laptime::{NAMES[phase]}")
            annotation.__enter__()
            self._ranges.append(annotation)
        now = perf_counter_ns()
        if self.current == OPTIMIZER:
            self.totals[OPTIMIZER] += now - self._since
            self._closure = True
        self.current = phase
        self.is_closed = phase != OPTIMIZER
        self._since = now
        return True

    def leave(self) -> None:
        """The running phase ends."""
        now = perf_counter_ns()
        if self.current == NONE:
            return
        self.totals[self.current] += now - self._since
        self.current, self._closure = (OPTIMIZER if self._closure else NONE), False
        self.is_closed = False
        self._since = now
        if self._ranges:
            self._ranges.pop().__exit__(None, None, None)

    def cut(self) -> list[int]:
        """The totals since the last cut, in the order of NAMES; they begin anew.

        An optimizer whose step raised is left here: nothing told its end.
        """
        while self.current == OPTIMIZER:
            self.leave()
        spent, self.totals = self.totals, [0, 0, 0, 0]
        return spent
