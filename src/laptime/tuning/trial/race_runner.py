"""Mode race: blocks of timed steps under alternating arms.

settle     until enough steps have passed, and the last one compiled nothing
resettle   an arm was put on: steps that do not count; as many as to settle when it is on for the first time
turn       if the plan has turns: it waits for one before its first step, so that sides warm up one by one,
           and before every block, then resettles
block      timed steps, back to back; written down as they end

Switching, writing and reading losses lie between blocks, outside the timing. So does what runs between two
epochs, but for the start of the loader's iterator and workers: that is part of an epoch's first step."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter_ns
from typing import Any

from laptime.instrument.importing import WhenImported
from laptime.instrument.messages import rank, world
from laptime.tuning.trial import messages, watched
from laptime.tuning.trial.hooks.loop_hooks import TrialMode
from laptime.tuning.trial.loop import Loop
from laptime.tuning.trial.messages import Block, TrialPlan

_COMPILER_CALLBACKS = "torch._dynamo.callback"
MOST_COMPILING = 40
"""Steps beyond those asked for that may all compile something; then the race ends as `recompiles`."""
STOP_CHECK = 50_000_000  # nanoseconds between two looks for the file `stop`


class RaceRunner(TrialMode):
    """Times blocks, the arms in random order within each round.

    Several ranks must do the same without talking to each other: they count steps, look at no clock, and have
    one arm."""

    def __init__(self, plan: TrialPlan, hooks: Any) -> None:
        self._plan, self._hooks, self._result = plan, hooks, hooks.result
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
        self._stop_requested = self._is_finished = False
        self._turns, self._has_turn = -1, not plan.turns
        self._hellos = 2  # messages before the first block: it has started, it is warm
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
        self._rank, self._world = rank(), world()

    # The loop.

    def fetch(self, loader: Any, take: Callable[[], Any]) -> Any:
        batch = take()
        self._counts.new_samples += samples(batch)
        return batch

    def backward(self, root: Any, run: Callable[[], Any]) -> Any:
        loss = self._hooks.unscale(root)
        if getattr(loss, "ndim", None) == 0:
            self._counts.new_losses.append(loss.detach())
        return run()

    def boundary(self, *, ended: bool, begins: bool) -> None:
        now = perf_counter_ns()
        if self._is_finished:
            return
        if self._source != self._hooks.steps.source:
            self._start_over()
        if self._watch is not None:
            self._time_step(self._watch, now, ended=ended, begins=begins)
        elif ended and self._is_in_step:
            self._waited += 1
            has_compiled = self._monitor.times != self._compilations
            self._compilations = self._monitor.times
            if not self._is_settled:
                self._result.settled += 1
            if self._waited >= self._steps_to_wait and not has_compiled:
                self._is_waiting = False
            elif self._waited >= self._steps_to_wait + MOST_COMPILING:
                self._end("recompiles", f"something was still compiled after {self._waited} steps")
        self._counts.begin()
        if self._watch is None:
            self._is_in_step = False
            if begins:
                self._decide()
            self._is_in_step = begins

    def _time_step(self, watch: Stopwatch, now: int, *, ended: bool, begins: bool) -> None:
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

    def _wait(self, steps: int) -> bool:
        """Let so many steps pass before the next block, and more while something is compiled; if any."""
        self._steps_to_wait, self._waited = steps, 0
        self._is_waiting = steps > 0 or self._monitor.times != self._compilations
        return self._is_waiting

    def _is_stop_requested(self, now: int) -> bool:
        if now >= self._next_stop_check and self._world == 1:
            self._next_stop_check, self._stop_requested = now + STOP_CHECK, self._stop_file.exists()
        return self._stop_requested

    # Between blocks.

    def _decide(self) -> None:
        """A step is about to begin outside of a block: wait on, begin a block, or end."""
        if self._is_stop_requested(perf_counter_ns()):
            self._end("stopped")
        if self._plan.turns and self._turns < 0:
            self._wait_for_turn()
        if self._is_waiting:
            return
        if not self._is_settled:
            self._is_settled = True
            self._rank, self._world = rank(), world()
        if self._next_arm is None:
            is_last = not self._queue and self._round + 1 >= self._plan.rounds
            if is_last or (self._world == 1 and self._timed_seconds >= self._plan.seconds):
                self._end("stopped")
            if not self._has_turn:
                self._wait_for_turn()
                self._has_turn = True
                if self._wait(self._plan.resettle):
                    return
            if not self._queue:
                self._round += 1
                arms = range(len(self._plan.arms)) if self._world == 1 else range(1)
                self._queue = self._random.sample(arms, len(arms))
            self._next_arm = self._queue.pop(0)
            self._switch(self._next_arm)
        if not self._is_waiting:
            self._open_block()

    def _wait_for_turn(self) -> None:
        """Whoever gives it may stop the whole process group meanwhile."""
        began = perf_counter_ns()
        if self._turns < 0:
            self._turns = os.open(Path(self._plan.folder) / messages.TURNS, os.O_RDONLY)
        if self._hellos:
            self._hellos -= 1
            messages.write(self._plan.folder, Block(-1, 0))
        if os.read(self._turns, 1) != messages.GO:
            self._end("stopped")
        self._hooks.began += (perf_counter_ns() - began) / 1e9  # of its first step that is no part

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
        is_on = [loop in self._hooks.changes.changes for loop in self._loops]
        if len(is_on) < len(self._plan.arms[self._arm]) or not all(is_on):
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
        self._is_finished, self._watch = True, None
        self._result.source = self._source
        self._result.rank, self._result.world = self._rank, self._world
        self._result.peak = max(self._peaks.values(), default=watched.peak(self._hooks.device))
        self._result.compile_seconds = self._monitor.seconds
        self._monitor.remove()


# What is measured of a block: the time of each step, what went through it, what torch.compile did.


class Stopwatch:
    """Times steps back to back.

    On the CPU each step has its own time. With an accelerator the host does not wait between steps, as in the
    script itself: it waits for the device at both ends of a stretch, whose time is divided evenly."""

    def __init__(self, device: Any) -> None:
        """`device`: an `instrument.device.Device`."""
        self._device, self._waits = device, device.name != "cpu"
        self._begun: int | None = None
        self._steps: list[int] = []
        self._elapsed = self._count = 0

    def __len__(self) -> int:
        """Steps that have ended."""
        return self._count

    def start(self, before: int = 0) -> None:
        """A stretch of steps begins; `before` nanoseconds before it count with it."""
        if self._waits:
            self._device.wait()
        self._begun = perf_counter_ns() - before

    def lap(self, now: int) -> None:
        """A step has ended at `now`, and the next one begins."""
        if self._begun is None:
            return
        self._count += 1
        if not self._waits:
            self._steps.append(now - self._begun)
            self._begun = now

    def pause(self) -> None:
        """The stretch is over: an epoch has ended, or the block has."""
        if self._begun is None:
            return
        if self._waits:
            self._device.wait()
            self._elapsed += perf_counter_ns() - self._begun
        self._begun = None

    def seconds(self) -> list[float]:
        """Seconds of each step."""
        if self._waits:
            return [self._elapsed / self._count / 1e9] * self._count if self._count else []
        return [nanoseconds / 1e9 for nanoseconds in self._steps]


class StepCounts:
    """Counts what goes through a step: samples, losses. Nothing is read from the device. `new_` is what the
    present step has until now.

    The loss of a step is the sum of the scalars that went backward: micro-batches, both halves of a GAN. So
    are its samples the sum of its batches."""

    def __init__(self) -> None:
        self.begin()
        self.clear()

    def begin(self) -> None:
        """A step begins; counts of an unfinished one are dropped."""
        self.new_samples = 0
        self.new_losses: list[Any] = []

    def clear(self) -> None:
        """A block begins."""
        self.samples: list[int] = []
        self._losses: list[list[Any]] = []

    def end(self) -> None:
        """The step has ended; it counts."""
        self.samples.append(self.new_samples)
        self._losses.append(self.new_losses)
        self.begin()

    def losses(self) -> list[float]:
        """Loss of each step of the block; waits for the device. Empty if no scalar went backward."""
        if not all(self._losses):
            return []
        return [sum(float(loss) for loss in losses) for losses in self._losses]


def samples(batch: Any) -> int:
    """Leading dimension of the first tensor in a batch, nested as it may be; 0 without one."""
    size = getattr(batch, "shape", None)
    if size is not None:
        return int(size[0]) if len(size) else 1
    if isinstance(batch, dict) or hasattr(batch, "values"):
        batch = batch.values()
    elif not isinstance(batch, (list, tuple)):
        batch = vars(batch).values() if hasattr(batch, "__dict__") else ()
    return next((count for part in batch if (count := samples(part))), 0)


class CompileMonitor:
    """Watches torch.compile while the loop runs.

    torch._dynamo.callback calls around every compilation: of frames, of backward graphs at their first run,
    of captured CUDA graphs. It exists from PyTorch 2.2 on; without it nothing is known and nothing counts.

    Attributes:
        seconds: in all. times: how often something was compiled.
    """

    def __init__(self) -> None:
        self.seconds, self.times = 0.0, 0
        self._begun: int | None = None
        self._handler: Any = None
        self._watch = WhenImported(_COMPILER_CALLBACKS, self._register)

    def install(self) -> None:
        """Listen as soon as the compiler is imported."""
        self._watch.install()

    def remove(self) -> None:
        """Listen no longer. Safe to call twice."""
        self._watch.remove()
        if self._handler is not None:
            for phase, callback in (("start", self._starts), ("end", self._ends)):
                callbacks = getattr(self._handler, f"{phase}_callbacks")
                if callback in callbacks:
                    callbacks.remove(callback)
        self._handler = None

    def _register(self) -> None:
        handler: Any = getattr(sys.modules[_COMPILER_CALLBACKS], "callback_handler", None)
        if hasattr(handler, "start_callbacks") and hasattr(handler, "end_callbacks"):
            self._handler = handler
            handler.start_callbacks.append(self._starts)
            handler.end_callbacks.append(self._ends)

    def _starts(self, *arguments: Any) -> None:
        self._begun = perf_counter_ns()

    def _ends(self, *arguments: Any) -> None:
        if self._begun is not None:
            self.seconds += (perf_counter_ns() - self._begun) / 1e9
            self.times += 1
        self._begun = None
