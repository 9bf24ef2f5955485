"""Where a step of a training or inference loop ends, and how long its parts take; knows nothing of torch.

A step ends, in this order of preference:

    optimizer   at the first fetch from a loader after an optimizer stepped. So micro-batches of gradient
                accumulation are one step, and so are both optimizers of a GAN. In a loop without a loader,
                and in one that fetches its next batch between a model's call and its backward pass: when
                the optimizer has stepped that came last before one stepped again
    loader      where there is no optimizer: at the next fetch
    forward     where there is no loader either: at the next outermost call of the same module

Evaluation is in no step: a step begins only with a fetch from a loader that training has used, and the
loader that is exhausted ends one without beginning another. A step inside which a model evaluates (without
gradients, or in a mode that is not for training), or something is saved or logged, is dropped where most
steps do neither. Times are nanoseconds of the host's clock."""

import os
import sys
import weakref
from collections import Counter
from collections.abc import Callable
from threading import get_ident
from time import perf_counter_ns
from typing import Any

RANK = ("", "forward", "loader", "optimizer")
"""Sources of steps; a later one replaces an earlier one as soon as it is seen."""
REPEATS = 3
"""So often must an optimizer step again without a fetch before the loop counts as one without loader."""
FORGOTTEN = 8  # after so many calls of other modules another one leads the steps of a loop of forward calls
SWALLOWED = 3  # so often may a script catch our end before its process is ended


class Cut:
    """The actions between two steps: bits of a plain number, as IntFlag takes microseconds a step."""

    NOTHING = 0
    ENDS = 1  # the open step is complete
    DROPS = 2  # the open step is none: evaluation was inside it, or it never came to its end
    BEGINS = 4


class Steps:
    """Finds steps online: every signal is answered with what it cuts. source: what steps are found by now:
    "", forward, loader or optimizer. seen: how often each signal came. prefetches: the next batch is fetched
    while a graph is alive."""

    def __init__(self, source: str = "") -> None:
        self.source = ""
        self.seen: Counter[str] = Counter()
        self._wanted = source
        self._has_optimizer = self._is_open = self._is_mixed = self._stepped = False
        self._lead: int | None = None
        self._others = 0
        self._last_loader: int | None = None
        self._fetches: Counter[int] = Counter()
        self._training: set[int] = set()
        self._in_step: set[int] = set()
        self._forward_since = self._backward_since = False
        self._cycle: list[int] = []
        self._closer: int | None = None
        self._repeats = 0
        self._fetched_since = self.prefetches = False
        self._is_graph_alive = self._fetched_alive = self._is_apart = False
        self._ended = self._ended_apart = 0

    # Signals.

    def optimizer_made(self) -> None:
        """An optimizer exists: this is a training script, and what comes before its first step is none."""
        self._has_optimizer = True

    def fetch(self, loader: int) -> int:
        self.seen["fetch"] += 1
        if self._forward_since and not self._backward_since and not self._stepped and self._last_loader:
            # The batch before went forward and not backward: evaluation.
            self._is_mixed = not (self.prefetches and self._is_graph_alive)
            self._in_step.discard(self._last_loader)
        self._fetched_alive = self._is_graph_alive
        used = self._forward_since or self._backward_since
        self._forward_since = self._backward_since = False
        self._last_loader = loader
        self._fetched_since = True
        self._fetches[loader] += 1
        self._in_step.add(loader)
        if self.source == "optimizer":
            goes_on = self.ends_with_optimizer or (self._is_open and not self._stepped)
            return Cut.NOTHING if goes_on else self._end(begins=loader in self._training)
        if self._fetches[loader] >= 2 and self._take("loader"):
            self._is_mixed = False
            if self._training and loader not in self._training:
                return self._end(begins=False)
            if not self._is_open or loader == self._lead or used:
                self._lead = loader
                return self._end(begins=True)
        return Cut.NOTHING

    def exhaust(self, loader: int) -> int:
        """This loader has no more batches: an epoch ends."""
        if self.source == "optimizer" and self._is_open and not self.ends_with_optimizer:
            self._is_mixed = self._is_mixed or not self._stepped  # it never came to its end
            return self._end(begins=False)
        if self.source == "loader" and self._is_open and loader == self._lead:
            return self._end(begins=False)
        return Cut.NOTHING

    def forward(self, module: int, *, graded: bool = True, trains: bool = True) -> int:
        """An outermost module is about to be called, with gradients enabled or not, to train or not."""
        self.seen["forward"] += 1
        self._forward_since = True
        self._is_apart = self._is_apart or not (graded and trains)
        if graded:
            self._is_graph_alive, self._fetched_alive = True, False
        if not self._take("forward"):
            return Cut.NOTHING
        if self._lead is None or self._others >= FORGOTTEN:
            self._lead = module
        if module != self._lead:
            self._others += 1
            return Cut.NOTHING
        self._others = 0
        return self._end(begins=True)

    def backward(self) -> None:
        """A backward pass begins: the loader fetched from last is one of training."""
        self.seen["backward"] += 1
        self._backward_since = True
        if self._last_loader is not None:
            self._training.add(self._last_loader)
        if self._fetched_alive and not self.prefetches:
            self.prefetches, self._is_open = True, False
        self._is_graph_alive = self._fetched_alive = False

    def apart(self) -> None:
        """Something is done that is not part of training: a checkpoint, a picture, a line of a log."""
        self._is_apart = True

    def optimizer(self, optimizer: int) -> int:
        self.seen["optimizer"] += 1
        self._has_optimizer = True
        if not self._take("optimizer"):
            return Cut.NOTHING
        self._stepped = True
        self._training |= self._in_step
        self._in_step = set()
        if self._fetched_since and not self.prefetches:
            self._fetched_since = False
            self._repeats, self._cycle = 0, [optimizer]
            return Cut.NOTHING
        if optimizer in self._cycle:
            self._repeats += 1
            self._closer = self._cycle[-1]
            self._cycle = []
        self._cycle.append(optimizer)
        if self.ends_with_optimizer and optimizer == self._closer:
            return self._end(begins=True)
        return Cut.NOTHING

    @property
    def ends_with_optimizer(self) -> bool:
        """Whether a step ends when an optimizer has stepped, not with the fetch that follows."""
        return self.prefetches or self._repeats >= REPEATS

    def is_training(self, loader: int) -> bool:
        """Whether batches of this loader have gone backward before."""
        return loader in self._training

    # What they come to.

    def _take(self, source: str) -> bool:
        """Whether steps are found by this source now; takes it up when it is better than the one so far."""
        if self._wanted and source != self._wanted:
            return False
        if not self._wanted and source != "optimizer" and self._has_optimizer:
            return False
        if RANK.index(source) > RANK.index(self.source):
            self.source = source
            self._is_open = self._is_mixed = self._stepped = False
            self._lead = None
        return self.source == source

    def _end(self, *, begins: bool) -> int:
        cut = Cut.NOTHING
        if self._is_open:
            self._ended += 1
            self._ended_apart += self._is_apart
            is_rare = self._is_apart and 2 * self._ended_apart < self._ended
            cut = Cut.DROPS if self._is_mixed or is_rare else Cut.ENDS
        self._is_open, self._is_mixed, self._stepped, self._is_apart = begins, False, False, False
        return cut | Cut.BEGINS if begins else cut


# Which part of a step runs.


DATA, FORWARD, BACKWARD, OPTIMIZER = range(4)
NAMES = ("data", "forward", "backward", "optimizer")
NONE = -1


class PhaseClock:
    """Adds up the phases of one thread; each counts without those inside it.

    One phase runs at a time, the outermost: a forward pass inside a backward pass (activation checkpointing)
    is backward, a model called by the dataset is data. Only an optimizer with a closure has phases inside.

    current: the running phase, or NONE. is_closed: whether nothing that begins now can count; the one thing
    that every module call asks. totals: nanoseconds of each phase since the last `cut`, without a running
    one. annotate: whether every phase is written into the trace that is being recorded."""

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
        """A phase begins; False if it does not count (`is_free_for`)."""
        if not self.is_free_for(phase):
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

        An optimizer whose step raised is left here: nothing told its end."""
        while self.current == OPTIMIZER:
            self.leave()
        spent, self.totals = self.totals, [0, 0, 0, 0]
        return spent


class Stop(BaseException):
    """All is observed: unwinds the script. No Exception, so that `except Exception` lets it through."""


class StepFinder:
    """Passes a loop's signals on to `Steps`, and tells `_cut` what each cuts. Hooks call its methods.
    workers_ns: time in which loaders started and ended workers, so far. made_optimizers: all that are there.
    on_settled is called when the first steps are over, on_close before the process is ended at once. share:
    loaders' batches are divided by it."""

    def __init__(self, step_by: str) -> None:
        self.phases = PhaseClock()
        self.steps = Steps(step_by)
        self.stopped = self.workers_ns = 0
        self.share = 1
        self.made_optimizers: Any = weakref.WeakSet()
        self.on_settled: Callable[[], None] = lambda: None
        self.on_close: Callable[[], None] = lambda: None

    def fetch(self, loader: int) -> None:
        self._cut(self.steps.fetch(loader))

    def exhaust(self, loader: int) -> None:
        self._cut(self.steps.exhaust(loader))

    def take(self, batch: Any, loader: int, batches: float) -> None:
        """A loader gave this batch, one of so many in an epoch."""

    def give(self, inputs: Any, module: int) -> None:
        """An outermost module that trains is called with these inputs."""

    def forward(self, module: int, *, graded: bool = True, trains: bool = True) -> None:
        self._cut(self.steps.forward(module, graded=graded, trains=trains))

    def optimizer(self, optimizer: int) -> None:
        self._cut(self.steps.optimizer(optimizer))

    def _cut(self, cut: int) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        """End the script by raising Stop; the process of one that swallows that SWALLOWED times is ended."""
        self.stopped += 1
        if self.stopped > SWALLOWED:
            self.on_close()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)
        raise Stop
