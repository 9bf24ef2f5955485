"""Race: blocks of timed steps under alternating arms.

settle     until enough steps have passed, and the last one compiled nothing
resettle   an arm was put on: steps that do not count; as many as to settle when it is on for the first time
block      timed steps, back to back; written down as they end

Switching, writing and reading losses lie between blocks, outside the timing. So does what runs between two
epochs, but for the start of the loader's iterator and workers: that is part of an epoch's first step.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from statistics import multimode
from time import perf_counter_ns
from typing import Any

from laptime.instrument.settings import rank, world
from laptime.tuning.trial import limits, result
from laptime.tuning.trial.compiling import Compiling, graph_breaks
from laptime.tuning.trial.plan import Plan
from laptime.tuning.trial.result import Block
from laptime.tuning.trial.timing import Counted, Stopwatch

ENDLESS = 40
"""Steps that may pass without one that compiles nothing, beyond those asked for; then it has no end."""
LOOK = 50_000_000
"""Nanoseconds between two looks for the file `stop`."""


class Race:
    """Implements `mode.Mode` for race and plain.

    Several ranks must do the same without a word: they count and ask no clock, and have one arm.
    """

    def __init__(self, plan: Plan, points: Any) -> None:
        self._plan = plan
        self._points = points
        self._trial = points.trial
        self._compiling = Compiling()
        self._compiling.install()
        self._random = random.Random(plan.order)  # noqa: S311, an order, no secret
        self._counted = Counted(keeps_losses=plan.keep_losses)
        self._stop_file = Path(plan.folder) / "stop"
        self._arms = list(range(len(plan.arms))) or [0]
        self._peaks: dict[int, int] = {}
        self._handle: Any = []
        self._arm: int | None = None
        self._was_on = {arm for arm, changes in enumerate(plan.arms) if not changes}
        self._looked = 0
        self._is_told = False
        self._is_finished = False
        self._anew()

    def _anew(self) -> None:
        """A better source of steps was found: what was timed by the other one is none."""
        self._source = self._points.steps.source
        self._trial.settled, self._trial.settling = 0, []
        self._is_settled = False
        self._compiled = self._compiling.times
        self._wait(self._plan.settle)
        self._queue: list[int] = []
        self._round = -1
        self._next: int | None = None
        self._watch: Stopwatch | None = None
        self._begun: int | None = None
        self._timed = 0.0
        self._samples: list[int] = []
        self._rank, self._world = rank(), world()

    # The loop.

    def fetch(self, loader: Any, take: Callable[[], Any]) -> Any:
        """A batch, counted."""
        batch = take()
        self._counted.fetched(batch)
        return batch

    def forward(self, module: Any) -> None:
        """Nothing to do."""

    def backward(self, root: Any, run: Callable[[], Any]) -> Any:
        """A backward pass; where it starts from is kept."""
        self._counted.went_backward(self._points.unscaled(root))
        return run()

    def step(self, optimizer: Any, run: Callable[[], Any]) -> Any:
        """An optimizer's step, counted."""
        self._counted.stepped(optimizer)
        return run()

    def boundary(self, *, ended: bool, begins: bool) -> None:
        """Between two steps."""
        now = perf_counter_ns()
        if self._is_finished:
            return
        if self._source != self._points.steps.source:
            self._anew()
        if self._watch is not None:
            self._in_block(now, ended=ended, begins=begins)
        elif ended and self._begun is not None:
            self._untimed((now - self._begun) / 1e9)
        self._counted.begin()
        if self._watch is not None:
            return
        self._begun = None
        if begins:
            self._decide()
            self._begun = perf_counter_ns()

    def _in_block(self, now: int, *, ended: bool, begins: bool) -> None:
        watch = self._watch
        assert watch is not None
        if ended:
            watch.lap(now)
            self._counted.end()
        if self._is_told_to_stop(now):
            self._watch = None  # half a block is none
        elif len(watch) >= self._plan.steps:
            self._close(watch)
        elif not (ended and begins):  # an epoch ends, or evaluation was inside the step
            watch.pause()
            if begins:
                watch.start(self._points.epoch_start)

    # Steps that do not count.

    def _wait(self, steps: int) -> None:
        """So many steps pass before the next block, and more while something is compiled."""
        self._to_wait, self._waited = steps, 0
        self._is_waiting = steps > 0 or self._compiling.times != self._compiled

    def _untimed(self, seconds: float) -> None:
        """One of them has ended."""
        self._waited += 1
        is_quiet = self._compiling.times == self._compiled
        self._compiled = self._compiling.times
        if not self._is_settled:
            self._trial.settled += 1
            self._trial.settling.append(seconds)
        if self._waited >= self._to_wait and is_quiet:
            self._is_waiting = False
        elif self._waited >= self._to_wait + ENDLESS:
            self._end("recompiles", f"something was still compiled after {self._waited} steps")

    def _is_told_to_stop(self, now: int) -> bool:
        if now >= self._looked and self._world == 1:
            self._looked = now + LOOK
            self._is_told = self._stop_file.exists()
        return self._is_told

    # Between blocks.

    def _decide(self) -> None:
        """A step is about to begin, and no block runs."""
        if self._is_told_to_stop(perf_counter_ns()):
            self._end("stopped")
        if self._is_waiting:
            return
        if not self._is_settled:
            self._is_settled = True
            self._rank, self._world = rank(), world()
        if self._next is None:
            if self._is_over():
                self._end("stopped")
            self._next = self._drawn()
            self._switch(self._next)
        if not self._is_waiting:
            self._open()

    def _is_over(self) -> bool:
        is_last = not self._queue and self._round + 1 >= self._plan.rounds
        return is_last or (self._world == 1 and self._timed >= self._plan.seconds)

    def _drawn(self) -> int:
        """The arm that is next, in random order within each round."""
        if not self._queue:
            self._round += 1
            arms = self._arms if self._world == 1 else self._arms[:1]
            self._queue = self._random.sample(arms, len(arms))
        return self._queue.pop(0)

    def _switch(self, arm: int) -> None:
        """Take off the arm that is on, and put on this one."""
        if arm == self._arm:
            return
        changes = self._plan.arms[arm] if self._plan.arms else []
        is_same = self._arm is None and not changes
        self._points.take_off(self._handle)
        self._handle = self._points.put_on(changes)
        self._arm = arm
        if not is_same:
            self._wait(max(self._plan.resettle, 0 if arm in self._was_on else self._plan.settle))
        self._was_on.add(arm)

    def _open(self) -> None:
        """A block begins."""
        arm = self._arm
        assert arm is not None
        if self._points.refuses(self._handle, self._plan.arms[arm] if self._plan.arms else []):
            self._end("refused", self._points.refused[-1]["why"])
        self._next = None
        self._counted.clear()
        self._times, self._compile_seconds = self._compiling.times, self._compiling.seconds
        limits.reset_peak(self._points.device)
        self._watch = Stopwatch(self._points.device)
        self._watch.start(self._points.epoch_start)

    def _close(self, watch: Stopwatch) -> None:
        """A block has ended: write it down."""
        watch.pause()
        self._watch = None
        trial, counted, arm = self._trial, self._counted, self._arm
        assert arm is not None
        peak = limits.peak(self._points.device)
        if peak is not None:
            self._peaks[arm] = max(self._peaks.get(arm, 0), peak)
        seconds = watch.seconds()
        self._timed += sum(seconds)
        trial.recompiles += self._compiling.times - self._times
        self._compiled = self._compiling.times
        if not seconds:
            return
        block = Block(self._round, arm, seconds, counted.losses(), list(counted.samples), watch.cpu)
        block.compiling = self._compiling.seconds - self._compile_seconds
        self._samples += block.samples
        trial.optimizer_steps += counted.optimizer_steps
        trial.learning_rates += [float(rate) for rate in counted.rates if rate is not None]
        if self._rank == 0:
            result.append(self._plan.folder, block)

    # The end.

    def _end(self, how: str, error: str = "") -> None:
        """All is done, or nothing can be: stop the script."""
        self._trial.ended, self._trial.error = how, error
        self.finish()
        self._points.stop()

    def finish(self) -> None:
        """Put down what is known. Safe to call twice."""
        if self._is_finished:
            return
        self._is_finished = True
        self._watch = None
        trial = self._trial
        trial.source = self._source
        trial.rank, trial.world = self._rank, self._world
        trial.batch = max(multimode(self._samples), default=0)
        trial.peaks = [self._peaks.get(arm) for arm in range(len(self._plan.arms))]
        trial.peak = max(self._peaks.values(), default=limits.peak(self._points.device))
        trial.compile_seconds = self._compiling.seconds
        trial.graph_breaks = graph_breaks()
        self._compiling.remove()
