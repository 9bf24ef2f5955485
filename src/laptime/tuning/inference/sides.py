"""Sides of a race: recipes as processes, one or as many as there are to be in the end."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from laptime.measure.recorded_calls import RecordedCalls
from laptime.probes import energy
from laptime.tuning.inference import resized_calls
from laptime.tuning.inference.arm import Arm
from laptime.tuning.inference.fleet import Fleet
from laptime.tuning.inference.folders import Folders, built
from laptime.tuning.inference.request import ModelRequest
from laptime.tuning.inference.setups import Setup, with_threads
from laptime.tuning.inference.timing import Timing
from laptime.tuning.optimization import Recipe
from laptime.tuning.search.evaluator import TrialFailed
from laptime.tuning.time_accounting import TimeAccounting

Side = Arm | Fleet
"""What is timed: one process, or several at once."""


class Sides:
    """Starts processes of recipes, and keeps what was timed of them.

    Attributes:
        folders: of the recipes. surveyed: see `survey.survey`. recorded: what the model as it is makes of
            the inputs. calls: their file.
        raced: setup of each side of a race.
        timings: by recipe, of whatever was timed on the way.
        meters: of the energy of what the model runs on: CPUs and memory, or the device.
    """

    request: ModelRequest
    folder: Path
    folders: Folders
    surveyed: dict[str, Any]
    recorded: RecordedCalls
    calls: Path
    timings: dict[Recipe, Timing]
    accounting: TimeAccounting
    meters: Sequence[energy.Meter] = ()
    raced = Setup()

    @property
    def batch(self) -> int:
        """Items in a call."""
        return int(self.surveyed["batch"])

    @property
    def device(self) -> str:
        """Where the model runs: cpu, cuda:0."""
        return str(self.surveyed.get("device", "cpu"))

    def timed(self, recipe: Recipe, side: Side, calls: int) -> list[float]:
        """Seconds of calls of a side, which are kept.

        Raises:
            TrialFailed: one fails.
        """
        seconds: list[float] = []
        readings = energy.measure(self.meters, lambda: seconds.extend(side.seconds(calls)))
        timing = self.timings[built(recipe)]
        timing.seconds.extend(seconds)
        timing.add_energy(energy.gross(readings), len(seconds))
        timing.peak = max(timing.peak, side.peak)
        return seconds

    def as_raced(self, recipe: Recipe) -> Recipe:
        """A recipe with the threads that it is raced in; the model as it is takes those of its CPUs."""
        return with_threads(recipe, self.raced.threads) if built(recipe) else recipe

    def side(self, recipe: Recipe) -> Side:
        """A recipe's folder in new processes, as many as a side of a race has.

        Raises:
            TrialFailed: the folder cannot be written.
        """
        if self.raced.instances == 1:
            return self.arm(recipe)
        return self.fleet(self.as_raced(recipe), self.raced)

    def arm(self, recipe: Recipe) -> Arm:
        """A recipe's folder in a new process.

        Raises:
            TrialFailed: the folder cannot be written, or does not run.
        """
        return self._arm_at(recipe, self.calls)

    def _arm_at(self, recipe: Recipe, calls: Path) -> Arm:
        folder = self.folders.written(recipe)
        self.accounting.trials += 1
        return self.arm_of(recipe, folder, calls)

    def arm_of(self, recipe: Recipe, folder: Path, calls: Path, cpus: Sequence[int] = ()) -> Arm:
        """A folder of a recipe in a new process, called with other recorded inputs, on some CPUs.

        Raises:
            TrialFailed: it does not run.
        """
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

        Raises:
            TrialFailed: the folder cannot be written, or takes no such batch, or there are too few CPUs.
        """
        self.accounting.trials += setup.instances
        folder, calls = self.folders.written(recipe), self._calls_of(setup.batch)
        return Fleet(partial(self.arm_of, recipe), folder, calls, setup)

    def _calls_of(self, batch: int) -> Path:
        """File of recorded inputs, cut or repeated to so many items."""
        path = self.folder / f"calls-{batch}.npz"
        if batch == self.batch or path.is_file():
            return path if path.is_file() else self.calls
        if not any(self.surveyed["varies"]):
            raise TrialFailed("refused", f"the model takes {self.batch} items a call, not {batch}")
        resized_calls.save(self.recorded, self.surveyed["varies"], own=self.batch, batch=batch, path=path)
        return path
