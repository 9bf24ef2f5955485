"""A process made ready for a trial, and given back."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import Any

from laptime.instrument import facts, sources
from laptime.instrument.importing import WhenImported
from laptime.instrument.settings import rank, world
from laptime.tuning.trial import libraries, limits, result
from laptime.tuning.trial.plan import Plan
from laptime.tuning.trial.points import Points
from laptime.tuning.trial.seeds import Seeds

MODES = {
    "race": "laptime.tuning.trial.conductor:Race",
    "plain": "laptime.tuning.trial.conductor:Race",
    "diagnose": "laptime.tuning.trial.differential:Differential",
    "gate": "laptime.tuning.trial.witness:Witness",
}
"""What does which mode of a plan; imported when it is wanted."""


def _nothing() -> None:
    pass


class Stage:
    """A script's process made ready for a trial, and given back."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.points = Points(plan)
        self.trial = self.points.trial
        self._own = os.getpid()
        self._is_closed = False
        module, _, name = MODES[plan.mode].partition(":")
        self._mode: Any = getattr(importlib.import_module(module), name)(plan, self.points)
        self.points.listen(self._mode)
        self.points.on_close = self.close
        self._seeds = None if plan.seed is None else Seeds(plan.seed)
        self._watches = [WhenImported("torch", self._torch), *libraries.watches(self.points.made)]
        self._watchdog = limits.Watchdog(plan.memory, self._passed)
        self._undo_scratch: Callable[[], list[str]] = list
        self._undo_sources: Callable[[], None] = _nothing

    def open(self) -> None:
        """Before the script's first line."""
        self._undo_sources = sources.install(self.plan.sources)
        if self.plan.scratch:
            with suppress(ModuleNotFoundError):
                scratch: Any = importlib.import_module("laptime.tuning.trial.scratch")
                self._undo_scratch = scratch.install(self.plan.scratch)
        if self._seeds is not None:
            self._seeds.install()
        for watch in self._watches:
            watch.install()
        self._watchdog.start()

    def _torch(self) -> None:
        self.trial.imported = perf_counter() - self.points.began
        self.points.install()

    def _passed(self, found: int) -> None:
        """Too much memory, told by another thread: write what is known, the process ends now."""
        limit = self.plan.memory or 0
        self.trial.ended, self.trial.status, self.trial.peak = "memory", 1, found
        self.trial.error = f"used {found / 1e9:.2f} GB, {limit / 1e9:.2f} GB is the limit"
        self._write()

    def close(self) -> None:
        """The script has ended, by us or by itself. Safe to call twice."""
        if self._is_closed or os.getpid() != self._own:
            return
        self._is_closed = True
        self._watchdog.stop()
        trial = self.trial
        if self.points.stopped:
            trial.ended = trial.ended or "stopped"
        trial.seen = dict(self.points.steps.seen)
        trial.rank, trial.world, trial.source = rank(), world(), self.points.steps.source
        try:
            self._mode.finish()
        except Exception as error:  # the device may be what the script has failed with; the rest is told
            trial.notes.append(f"not all is known: {type(error).__name__}: {error}")
        if "torch" in sys.modules:
            trial.torch = True
            with suppress(RuntimeError):
                trial.device = self.points.device.name
                trial.libraries, trial.devices, trial.knobs = (
                    facts.libraries(),
                    facts.devices(),
                    facts.knobs(),
                )
        self._give_back()
        self._write()

    def _give_back(self) -> None:
        for watch in self._watches:
            watch.remove()
        self._undo_sources()
        self.points.undo()
        if self._seeds is not None:
            self.trial.left += self._seeds.undo()
        self.trial.writes = list(self._undo_scratch())

    def _write(self) -> None:
        name = "trial.json" if self.trial.rank == 0 else f"trial-{self.trial.rank}.json"
        if not self.trial.source and (Path(self.plan.folder) / name).exists():
            return  # torchrun's own process, which is no rank: the first one has written
        result.write(self.plan.folder, name, self.trial)
