"""A laboratory without a script: model, step and loader that exist only in this process.

Every trial runs here, under the same hooks, on a loader made anew from the given one; afterwards models,
optimizers, schedulers and random states get back what they had. Changes that need a fresh process are left
out, and the run says so.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from laptime.instrument.step_observer import Stop
from laptime.launch.script import Program
from laptime.launch.trial import Running
from laptime.records.run import Subject
from laptime.tuning import optimization
from laptime.tuning.candidates import Choice
from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.optimization import Recipe
from laptime.tuning.search.evaluator import CandidateSet
from laptime.tuning.session.trial_runner import TrialRunner
from laptime.tuning.trial.messages import Block, Messages, TrialPlan, TrialResult
from laptime.tuning.trial.process import TrialProcess
from laptime.tuning.trial.state_snapshot import TrainingSnapshot

_T = TypeVar("_T")
_ENVIRONMENT = "is decided when a process starts; this one has"
_OF_THE_OPTIMIZER = ("batch_size",)
"""Changes of the loader that need an optimizer of another rate, from its construction on."""
EPOCHS = 10_000
"""Passes over the loader at most: a trial ends itself long before."""


@dataclass(frozen=True, kw_only=True)
class Problem:
    """What `laptime.tune` needs to know of a training that is no script.

    Attributes:
        model: the module that is trained; of several, one that holds them all (a ModuleList).
        step: one whole training step on a batch: forward, backward, the step of a torch optimizer. What it
            keeps outside of models, optimizers and schedulers (a counter, an average of its own) is not
            given back.
        loader: gives the batches; a DataLoader is made anew with other arguments when that is tried.
        name: for the report.
    """

    model: Any
    step: Callable[[Any], Any]
    loader: Iterable[Any]
    name: str = "problem"


class Here(TrialRunner):
    """The laboratory of a Problem."""

    def __init__(self, problem: Problem, choice: Choice, folder: Path, **given: Any) -> None:
        program = Program([problem.name], Subject(target=problem.name, source="memory"), "")
        super().__init__(program, choice, folder, **given)
        self._problem = problem

    def candidates(self, loop_profile: LoopProfile, recipe: Recipe) -> CandidateSet:
        """Without what a process that runs already cannot take up."""
        found = super().candidates(loop_profile, recipe)
        fixed = {
            each.change.name: f"{each.title}: {_ENVIRONMENT}"
            for each in found.usable
            if not _is_possible(each.change.name)
        }
        kept = tuple(each for each in found.usable if each.change.name not in fixed)
        return CandidateSet(kept, {**found.ruled_out, **fixed})

    @contextmanager
    def run(self, plan: TrialPlan) -> Iterator[Running]:
        """A trial in this process; its steps are run while its blocks are asked for."""
        self.ledger.trials += 1
        Path(plan.folder).mkdir(parents=True, exist_ok=True)
        snapshot = TrainingSnapshot(self._problem.model, generators(self._problem.loader))
        alone = replace(plan, scratch="", memory=None, seed=None)
        ran: Any = Ran(self._problem, alone, self._timeout, snapshot.optimizers)
        try:
            yield ran
        finally:
            ran.stop()
            snapshot.restore()
            gc.collect()


class Ran:
    """As `launch.trial.Running`, of a trial in this process."""

    hung = False

    def __init__(self, problem: Problem, plan: TrialPlan, timeout: float, optimizers: list[Any]) -> None:
        self.folder = Path(plan.folder)
        self._until = time.monotonic() + timeout
        self._optimizers = optimizers
        self._problem, self._plan = problem, plan
        self._process = TrialProcess(plan)
        self._messages = Messages(plan.folder)
        self._is_over = False

    def blocks(self) -> Iterator[Block]:
        """Runs steps, and gives every block as it ends."""
        result = self._process.result
        self._process.open()
        self._process.hooks.adopt(self._optimizers)
        try:
            loader = again(self._problem.loader)
            for _ in range(EPOCHS):
                for batch in loader:
                    self._problem.step(batch)
                    yield from self._messages.new_blocks()
                    self.hung = time.monotonic() > self._until
                    if self.hung or self._process.hooks.stopped:  # a step that swallows whatever is raised
                        return
        except Stop:
            result.ended = "stopped"
        except GeneratorExit:
            result.ended = "stopped"
            raise
        except Exception as error:
            result.ended, result.error = "raised", f"{type(error).__name__}: {error}"
        finally:
            self._is_over = True
            result.status = os.EX_OK
            self._process.close()
        yield from self._messages.new_blocks()

    def wait(self) -> None:
        """Until the trial has enough."""
        for _ in self.blocks():
            pass

    def stop(self) -> None:
        """Nothing runs between two blocks."""
        if not self._is_over:
            self._process.close()
            self._is_over = True

    def finished(self) -> TrialResult:
        """How it went."""
        self.stop()
        return self._process.result

    def document(self, kind: type[_T]) -> _T | None:
        """The last `LoopProfile` or `NumericsComparison` that it has left, None without one."""
        return self._messages.latest(kind)

    def output(self) -> str:
        """It has printed where this process prints."""
        return ""

    def last_words(self) -> str:
        """Why it ended is known as an exception."""
        return "it ended without a word"


def generators(loader: Any) -> list[Any]:
    """What a loader of torch draws from, beside the process's own: each once."""
    found: dict[int, Any] = {}
    for owner in (loader, getattr(loader, "sampler", None), getattr(loader, "batch_sampler", None)):
        generator = getattr(owner, "generator", None)
        if _is_loader(loader) and hasattr(generator, "get_state"):
            found[id(generator)] = generator
    return list(found.values())


def again(loader: Iterable[Any]) -> Iterable[Any]:
    """A DataLoader made anew as it was made, so that changes see its construction; others as they are."""
    if not _is_loader(loader):
        return loader
    of: Any = loader
    given: dict[str, Any] = {
        name: getattr(of, name)
        for name in (
            "num_workers", "collate_fn", "pin_memory", "timeout", "worker_init_fn",
            "multiprocessing_context", "generator", "prefetch_factor", "persistent_workers",
        )
    }  # fmt: skip
    if of.batch_size is not None:  # torch has made the batch sampler
        given |= {"batch_size": of.batch_size, "drop_last": of.drop_last}
        kind = type(of.sampler).__name__
        if kind == "RandomSampler" and not of.sampler.replacement:
            given["shuffle"] = True
        elif kind not in ("SequentialSampler", "_InfiniteConstantSampler"):
            given["sampler"] = of.sampler
    elif of.batch_sampler is not None:
        given["batch_sampler"] = of.batch_sampler
    else:
        given |= {"batch_size": None, "sampler": of.sampler}
    if not given["num_workers"]:
        for name in ("prefetch_factor", "persistent_workers", "multiprocessing_context"):
            given.pop(name)
    made: Iterable[Any] = type(of)(of.dataset, **given)
    return made


def _is_loader(loader: Any) -> bool:
    return any(
        kind.__name__ == "DataLoader" and kind.__module__.startswith("torch.")
        for kind in type(loader).__mro__
    )


def _is_possible(name: str) -> bool:
    """Live, or something of the loader, which is made anew for every trial; the optimizer is not."""
    if name in _OF_THE_OPTIMIZER:
        return False
    module = optimization.load(name)
    return module.TOGGLE == "live" or bool(module.NEEDS & {"loader"}) or bool(module.COMPILES)
