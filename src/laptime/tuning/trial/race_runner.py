"""Mode race: blocks of timed steps under alternating arms.

settle     until enough steps have passed, and the last one compiled nothing
resettle   an arm was put on: steps that do not count; as many as to settle when it is on for the first time
turn       if the plan has turns: it waits for one before every block, then resettles
block      timed steps, back to back; written down as they end

Switching, writing and reading losses lie between blocks, outside the timing. So does what runs between two
epochs, but for the start of the loader's iterator and workers: that is part of an epoch's first step.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from statistics import multimode
from time import perf_counter_ns
from typing import Any

from laptime.instrument.messages import rank, world
from laptime.tuning.trial import messages, watched
from laptime.tuning.trial.block_timing import CompileMonitor, StepCounts, Stopwatch
from laptime.tuning.trial.hooks.loop_hooks import TrialMode
from laptime.tuning.trial.loop import Loop
from laptime.tuning.trial.messages import Block, TrialPlan

MOST_COMPILING = 40
"""Steps beyond those asked for that may all compile something; then the race ends as `recompiles`."""
STOP_CHECK = 50_000_000
"""Nanoseconds between two looks for the file `stop`."""


class RaceRunner(TrialMode):
    """Times blocks, the arms in random order within each round.

    Several ranks must do the same without talking to each other: they count steps, look at no clock, and have
    one arm.
    """

    def __init__(self, plan: TrialPlan, hooks: Any) -> None:
        self._plan = plan
        self._hooks = hooks
        self._result = hooks.result
        self._monitor = CompileMonitor()
        self._monitor.install()
        self._random = random.Random(plan.order)  # noqa: S311, an order, no secret
        self._counts = StepCounts()
        self._stop_file = Path(plan.folder) / "stop"
        self._peaks: dict[int, int] = {}
        self._loops: list[Loop] = []
        self._arm: int | None = None
        self._settled_arms = {arm for arm, changes in enumerate(plan.arms) if not changes}
        self._next_stop_check = 0
        self._stop_requested = False
        self._is_finished = False
        self._turns, self._has_turn = -1, not plan.turns
        self._start_over()

    def _start_over(self) -> None:
        """A better source of steps was found: what was timed by the other one does not count."""
        self._source = self._hooks.steps.source
        self._result.settled = 0
        self._is_settled = False
        self._compilations = self._monitor.times
        self._wait(self._plan.settle)
        self._queue: list[int] = []
        self._round = -1
        self._next_arm: int | None = None
        self._watch: Stopwatch | None = None
        self._is_in_step = False
        self._timed_seconds = 0.0
        self._samples: list[int] = []
        self._rank, self._world = rank(), world()

    # The loop.

    def fetch(self, loader: Any, take: Callable[[], Any]) -> Any:
        """A batch; its samples are counted."""
        batch = take()
        self._counts.fetched(batch)
        return batch

    def backward(self, root: Any, run: Callable[[], Any]) -> Any:
        """A backward pass; the loss that it starts from is kept."""
        self._counts.went_backward(self._hooks.unscaled(root))
        return run()

    def step(self, optimizer: Any, run: Callable[[], Any]) -> Any:
        """An optimizer's step, counted."""
        self._counts.stepped()
        return run()

    def boundary(self, *, ended: bool, begins: bool) -> None:
        """Between two steps."""
        now = perf_counter_ns()
        if self._is_finished:
            return
        if self._source != self._hooks.steps.source:
            self._start_over()
        if self._watch is not None:
            self._timed_step(self._watch, now, ended=ended, begins=begins)
        elif ended and self._is_in_step:
            self._untimed_step()
        self._counts.begin()
        if self._watch is not None:
            return
        self._is_in_step = False
        if begins:
            self._decide()
            self._is_in_step = True

    def _timed_step(self, watch: Stopwatch, now: int, *, ended: bool, begins: bool) -> None:
        if ended:
            watch.lap(now)
            self._counts.end()
        if self._is_stop_requested(now):
            self._watch = None  # half a block does not count
        elif len(watch) >= self._plan.steps:
            self._close_block(watch)
        elif not (ended and begins):  # an epoch ends, or evaluation was inside the step
            watch.pause()
            if begins:
                watch.start(self._hooks.epoch_start)

    # Steps that do not count.

    def _wait(self, steps: int) -> None:
        """Let so many steps pass before the next block, and more while something is compiled."""
        self._steps_to_wait, self._waited = steps, 0
        self._is_waiting = steps > 0 or self._monitor.times != self._compilations

    def _untimed_step(self) -> None:
        self._waited += 1
        has_compiled = self._monitor.times != self._compilations
        self._compilations = self._monitor.times
        if not self._is_settled:
            self._result.settled += 1
        if self._waited >= self._steps_to_wait and not has_compiled:
            self._is_waiting = False
        elif self._waited >= self._steps_to_wait + MOST_COMPILING:
            self._end("recompiles", f"something was still compiled after {self._waited} steps")

    def _is_stop_requested(self, now: int) -> bool:
        if now >= self._next_stop_check and self._world == 1:
            self._next_stop_check = now + STOP_CHECK
            self._stop_requested = self._stop_file.exists()
        return self._stop_requested

    # Between blocks.

    def _decide(self) -> None:
        """A step is about to begin outside of a block: wait on, begin a block, or end."""
        if self._is_stop_requested(perf_counter_ns()):
            self._end("stopped")
        if self._is_waiting:
            return
        if not self._is_settled:
            self._is_settled = True
            self._rank, self._world = rank(), world()
        if self._next_arm is None:
            if self._is_over():
                self._end("stopped")
            if not self._has_turn and self._resettles_after_turn():
                return
            self._next_arm = self._draw_arm()
            self._switch(self._next_arm)
        if not self._is_waiting:
            self._open_block()

    def _resettles_after_turn(self) -> bool:
        """Wait for a turn; whoever gives it may stop the whole process group meanwhile."""
        folder = Path(self._plan.folder)
        if self._turns < 0:
            self._turns = os.open(folder / messages.TURNS, os.O_RDONLY)
            messages.write(self._plan.folder, Block(-1, 0))
        if os.read(self._turns, 1) != messages.GO:
            self._end("stopped")
        self._has_turn = True
        self._wait(self._plan.resettle)
        return self._is_waiting

    def _is_over(self) -> bool:
        is_last = not self._queue and self._round + 1 >= self._plan.rounds
        return is_last or (self._world == 1 and self._timed_seconds >= self._plan.seconds)

    def _draw_arm(self) -> int:
        """The next arm, in random order within each round."""
        if not self._queue:
            self._round += 1
            arms = range(len(self._plan.arms)) if self._world == 1 else range(1)
            self._queue = self._random.sample(arms, len(arms))
        return self._queue.pop(0)

    def _switch(self, arm: int) -> None:
        if arm == self._arm:
            return
        changes = self._plan.arms[arm]
        is_same = self._arm is None and not changes
        self._hooks.take_off(self._loops)
        self._loops = self._hooks.put_on(changes)
        self._arm = arm
        if not is_same:
            self._wait(max(self._plan.resettle, 0 if arm in self._settled_arms else self._plan.settle))
        self._settled_arms.add(arm)

    def _open_block(self) -> None:
        assert self._arm is not None
        if self._hooks.refuses(self._loops, self._plan.arms[self._arm]):
            self._end("refused", self._hooks.refused[-1]["why"])
        self._next_arm = None
        self._counts.clear()
        self._compile_seconds = self._monitor.seconds
        watched.reset_peak(self._hooks.device)
        self._watch = Stopwatch(self._hooks.device)
        self._watch.start(self._hooks.epoch_start)

    def _close_block(self, watch: Stopwatch) -> None:
        watch.pause()
        self._watch, self._has_turn = None, not self._plan.turns
        counts, arm = self._counts, self._arm
        assert arm is not None
        peak = watched.peak(self._hooks.device)
        if peak is not None:
            self._peaks[arm] = max(self._peaks.get(arm, 0), peak)
        seconds = watch.seconds()
        self._timed_seconds += sum(seconds)
        self._compilations = self._monitor.times
        if not seconds:
            return
        compiling = self._monitor.seconds - self._compile_seconds
        block = Block(self._round, arm, seconds, counts.losses(), list(counts.samples), compiling)
        self._samples += block.samples
        self._result.optimizer_steps += counts.optimizer_steps
        if self._rank == 0:
            messages.write(self._plan.folder, block)

    # The end.

    def _end(self, how: str, error: str = "") -> None:
        """Everything is measured, or nothing can be: stop the script."""
        self._result.ended, self._result.error = how, error
        self.finish()
        self._hooks.stop()

    def finish(self) -> None:
        """Put what is known into the result. Safe to call twice."""
        if self._is_finished:
            return
        self._is_finished = True
        self._watch = None
        self._result.source = self._source
        self._result.rank, self._result.world = self._rank, self._world
        self._result.batch = max(multimode(self._samples), default=0)
        self._result.peak = max(self._peaks.values(), default=watched.peak(self._hooks.device))
        self._result.compile_seconds = self._monitor.seconds
        self._monitor.remove()
