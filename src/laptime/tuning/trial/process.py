"""A script's process made ready for a trial, and given back."""

import importlib
import os
import sys
from collections.abc import Callable
from contextlib import suppress

from laptime.instrument import device, program
from laptime.instrument.importing import WhenImported
from laptime.instrument.messages import rank, world
from laptime.tuning.trial import messages
from laptime.tuning.trial.hooks.active_changes import LIBRARY_CLASSES, LibraryCalls
from laptime.tuning.trial.hooks.loop_hooks import LoopHooks
from laptime.tuning.trial.messages import TrialPlan, TrialResult
from laptime.tuning.trial.state_snapshot import SeedShift
from laptime.tuning.trial.watched import StartedProcesses, Watchdog

MODES = {
    "race": "race_runner:RaceRunner",
    "diagnose": "diagnosis.ablation_runner:AblationRunner",
    "gate": "numerics.capture:NumericsCapture",
}
"""The class that implements each `TrialPlan.mode`; its module is imported when it is needed."""
_SET_BY_TORCH = ("KMP_DUPLICATE_LIB_OK", "KMP_INIT_AT_FORK", "TORCHINDUCTOR_CACHE_DIR")
"""Variables that torch and its libraries set while they are imported."""


class TrialProcess:
    def __init__(self, plan: TrialPlan) -> None:
        self.plan, self.hooks = plan, LoopHooks(plan)
        self.result = self.hooks.result
        self._pid, self._is_closed = os.getpid(), False
        module, _, name = MODES[plan.mode].partition(":")
        mode = getattr(importlib.import_module(f"laptime.tuning.trial.{module}"), name)
        self.hooks.mode, self.hooks.on_close = mode(plan, self.hooks), self.close
        self._seeds = None if plan.seed is None else SeedShift(plan.seed)
        self._variables: dict[str, str] = {}
        self._started = StartedProcesses(plan.folder)
        self._import_hooks = [
            WhenImported("torch", self._keep_variables),
            WhenImported("torch", self.hooks.install),
            *(LibraryCalls(module, name, self.hooks.constructors) for module, name in LIBRARY_CLASSES),
        ]
        self._watchdog = Watchdog(plan.memory, self._over_memory_limit)
        self._undo_sandbox: Callable[[], list[str]] = list
        self._undo_sources: Callable[[], None] = lambda: None

    def _keep_variables(self) -> None:
        """Keep variables that a script sets before it imports torch: they must be there when torch starts."""
        changed = {name for name, value in os.environ.items() if value != self._variables.get(name)}
        self.result.variables = sorted(changed.difference(_SET_BY_TORCH))

    def open(self) -> None:
        """Before the script's first line."""
        self._variables = dict(os.environ)
        self._undo_sources = program.install(self.plan.sources)
        if self.plan.scratch:
            from laptime.tuning.trial import write_sandbox

            self._undo_sandbox = write_sandbox.install(self.plan.scratch)
        if self._seeds is not None:
            self._seeds.install()
        for import_hook in self._import_hooks:
            import_hook.install()
        self._started.install()
        self._watchdog.start()

    def _over_memory_limit(self, used: int) -> None:
        """Called from the watchdog's thread: write what is known, the process ends now."""
        limit = (self.plan.memory or 0) / 1e9
        self.result.ended, self.result.status, self.result.peak = "memory", 1, used
        self.result.error = f"used {used / 1e9:.2f} GB, {limit:.2f} GB is the limit"
        self._write()

    def close(self) -> None:
        """The script has ended, by us or by itself. Safe to call twice."""
        if self._is_closed or os.getpid() != self._pid:
            return
        self._is_closed = True
        self._watchdog.stop()
        if self.hooks.stopped:
            self.result.ended = self.result.ended or "stopped"
        self.result.source = self.hooks.steps.source
        self.result.rank, self.result.world = rank(), world()
        try:
            self.hooks.mode.finish()
        except Exception as error:  # the device may be what the script has failed with; the rest is written
            self.result.notes.append(f"{messages.INCOMPLETE}{type(error).__name__}: {error}")
        if "torch" in sys.modules:
            self.result.torch = True
            self.result.imported = [name for name in messages.LIBRARIES if name in sys.modules]
            with suppress(RuntimeError):
                self.result.device = self.hooks.device.name
                self.result.libraries, self.result.devices = device.libraries(), device.devices()
                self.result.knobs = device.knobs()
        for import_hook in self._import_hooks:
            import_hook.remove()
        self._started.undo()
        self._undo_sources()
        self.hooks.undo()
        if self._seeds is not None:
            self.result.left += self._seeds.undo()
        self._undo_sandbox()
        self._write()

    def _write(self) -> None:
        if not self.result.source and messages.Messages(self.plan.folder).latest(TrialResult) is not None:
            return  # torchrun's own process, which is no rank: the first one has written
        messages.write(self.plan.folder, self.result, self.result.rank)
