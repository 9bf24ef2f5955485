"""Sides of a race: recipes as processes, one or as many as there are to be in the end.

An `Arm` is a folder in one process, a `Fleet` the same folder in several, each on CPUs of its own (decision
0027): both have `wait`, `call`, `ready`, `seconds` and `peak`. `Sides` starts them and keeps what was timed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from laptime.experiment.pairs import Visited
from laptime.measure.recorded_calls import RecordedCall, RecordedCalls
from laptime.probes import energy
from laptime.tuning.inference.folders import Arm, Folders, strip
from laptime.tuning.inference.request import ModelRequest
from laptime.tuning.inference.setups import Setup, Visit, cpus_of, with_threads
from laptime.tuning.optimization import Recipe
from laptime.tuning.search.evaluator import TrialFailed
from laptime.tuning.time_accounting import TimeAccounting


@dataclass
class Timing:
    """All calls of a folder that were timed."""

    seconds: list[float] = field(default_factory=list)  # of each call
    peak: int = 0  # the largest of its processes, in bytes
    joules: float = 0.0  # of all covered devices, gross, in windows of `metered` calls together
    metered: int = 0


MOST_COMPARED = 3  # calls that are compared at a batch size which is chosen
StartArm = Callable[[Path, Path, Sequence[int]], Arm]
"""Starts a folder that is called with recorded inputs, on some CPUs; on all if none are named."""


class Fleet(AbstractContextManager["Fleet"]):
    """The processes of a setup, which have begun to load when this returns; close it.

    Args:
        start: of one process. folder, calls: see `Arm`; the calls have the setup's batch size.

    Raises:
        TrialFailed: there are not enough CPUs; later, as an `Arm` does, if one of them does not run.
    """

    def __init__(self, start: StartArm, folder: Path, calls: Path, setup: Setup) -> None:
        self.setup = setup
        places = cpus_of(setup)
        if not places:
            raise TrialFailed("refused", f"no room for {setup.instances} x {setup.threads} threads")
        with ExitStack() as stack:
            self._arms = [stack.enter_context(start(folder, calls, cpus)) for cpus in places]
            self._stack = stack.pop_all()
        self._warming: float | None = None

    def wait(self) -> None:
        """Until all are loaded and have made calls that do not count: the first of some runtimes compiles."""
        if self._warming is None:
            for arm in self._arms:
                arm.wait()
            began = time.monotonic()
            self._call(0.0)
            self._warming = time.monotonic() - began

    @property
    def call(self) -> float:
        """Seconds of a call of one instance alone, about."""
        self.wait()
        return self._arms[0].call

    @property
    def ready(self) -> float:
        """Seconds until the slowest was loaded, and of the first calls."""
        self.wait()
        return max(arm.loading for arm in self._arms) + (self._warming or 0.0)

    @property
    def peak(self) -> int:
        """Bytes of all processes, at most so far."""
        return sum(arm.peak for arm in self._arms)

    def seconds(self, calls: int) -> list[float]:
        """Seconds of each call of all instances, which call at the same time for as long as so many take."""
        return [duration for durations in self._call(calls * self.call) for duration in durations]

    def _call(self, seconds: float) -> list[list[float]]:
        for arm in self._arms:
            arm.begin(seconds)
        return [arm.finish() for arm in self._arms]

    def visit(self, seconds: float) -> Visit:
        """All instances call for so many seconds, at the same time.

        The rate is the sum over instances, each over its own time: all begin and end within a call."""
        self.wait()
        made = self._call(seconds)
        return Visit(
            seconds=[duration for durations in made for duration in durations],
            rate=sum(self.setup.batch * len(durations) / sum(durations) for durations in made),
            peak=self.peak,
        )

    def close(self) -> None:
        """End all of them."""
        self._stack.close()

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass
class FleetSide:
    """A setup that has its turn while it is called. For its methods see `experiment.turns.Side`."""

    begin: Callable[[], Fleet]  # starts its processes
    seconds: Callable[[float], float]  # of calls in a block, by the seconds of a call
    figure: Callable[[Visit], float]  # what the goal looks at, of calls together
    blocks: list[Visit] = field(default_factory=list)  # so far
    _stack: ExitStack = field(default_factory=ExitStack)

    def start(self) -> None:
        self._fleet = self._stack.enter_context(self.begin())

    def warm(self) -> None:
        self._fleet.wait()

    def block(self) -> float:
        self.blocks.append(self._fleet.visit(self.seconds(self._fleet.call)))
        return self.figure(self.blocks[-1])

    def finish(self) -> None:
        pass

    def close(self) -> None:
        self._stack.close()

    @property
    def visited(self) -> Visited:
        """All blocks together."""
        seconds = [each for block in self.blocks for each in block.seconds]
        rate, peak = median(block.rate for block in self.blocks), self.blocks[-1].peak
        return Visited(self.figure(Visit(seconds, rate, peak)), seconds, rate, peak)


Side = Arm | Fleet  # what is timed: one process, or several at once


class Sides:
    """Starts processes of recipes, and keeps what was timed of them."""

    request: ModelRequest
    folder: Path
    folders: Folders  # of the recipes
    surveyed: dict[str, Any]  # see `survey.survey`
    recorded: RecordedCalls  # what the model as it is makes of the inputs
    calls: Path  # their file
    timings: dict[Recipe, Timing]  # of whatever was timed on the way
    accounting: TimeAccounting
    meters: Sequence[energy.Meter] = ()  # of what the model runs on: CPUs and memory, or the device
    raced = Setup()  # of each side of a race

    @property
    def batch(self) -> int:
        """Items in a call."""
        return int(self.surveyed["batch"])

    @property
    def device(self) -> str:
        """Where the model runs: cpu, cuda:0."""
        return str(self.surveyed.get("device", "cpu"))

    def time_calls(self, recipe: Recipe, side: Side, calls: int) -> list[float]:
        """Seconds of calls of a side, which are kept. Raises TrialFailed: one fails."""
        seconds: list[float] = []
        readings = energy.measure(self.meters, lambda: seconds.extend(side.seconds(calls)))
        timing = self.timings[strip(recipe)]
        timing.seconds.extend(seconds)
        if (joules := energy.gross(readings)) is not None:
            timing.joules += joules
            timing.metered += len(seconds)
        timing.peak = max(timing.peak, side.peak)
        return seconds

    def as_raced(self, recipe: Recipe) -> Recipe:
        """A recipe with the threads that it is raced in; the model as it is takes those of its CPUs."""
        return with_threads(recipe, self.raced.threads) if strip(recipe) else recipe

    def side(self, recipe: Recipe) -> Side:
        """A recipe's folder in new processes, as many as a side of a race has.
        Raises TrialFailed: the folder cannot be written."""
        if self.raced.instances == 1:
            return self.arm(recipe)
        return self.fleet(self.as_raced(recipe), self.raced)

    def arm(self, recipe: Recipe, calls: Path | None = None) -> Arm:
        """A recipe's folder in a new process; calls: other recorded inputs than the session's.
        Raises TrialFailed: the folder cannot be written."""
        folder = self.folders.ensure(recipe)
        self.accounting.trials += 1
        return self.arm_of(recipe, folder, calls or self.calls)

    def arm_of(self, recipe: Recipe, folder: Path, calls: Path, cpus: Sequence[int] = ()) -> Arm:
        """A folder of a recipe in a new process, called with other recorded inputs, on some CPUs."""
        return Arm(
            folder,
            calls,
            isolated=self.folders.is_isolated(recipe),
            timeout=self.request.timeout,
            arrays=self.folders.takes_arrays(recipe),
            python=self.folders.python(recipe),
            cpus=cpus,
            device=self.device,
        )

    def fleet(self, recipe: Recipe, setup: Setup) -> Fleet:
        """A recipe's folder in the new processes of a setup.
        Raises TrialFailed: the folder cannot be written, or takes no such batch, or there are too few CPUs.
        """
        self.accounting.trials += setup.instances
        folder, calls = self.folders.ensure(recipe), self._calls_of(setup.batch)
        return Fleet(partial(self.arm_of, recipe), folder, calls, setup)

    def _calls_of(self, batch: int) -> Path:
        """File of recorded inputs, the first of the session's own size cut or repeated to so many items."""
        path, varies = self.folder / f"calls-{batch}.npz", self.surveyed["varies"]
        if batch == self.batch or path.is_file():
            return path if path.is_file() else self.calls
        if not any(varies):
            raise TrialFailed("refused", f"the model takes {self.batch} items a call, not {batch}")
        own = [call.inputs for call in self.recorded.calls if call.batch == self.batch][:MOST_COMPARED]
        resize = lambda array, leads: array[np.arange(batch) % len(array)] if leads else array  # noqa: E731
        calls = [RecordedCall(batch, list(map(resize, inputs, varies)), []) for inputs in own]
        replace(self.recorded, calls=calls, optional=[]).save(path)
        return path
