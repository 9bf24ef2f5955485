"""Trials without a script: a model, a step and a loader that exist only in this process.

Every trial runs here, under the same hooks, on a copy of the loader; afterwards models, optimizers,
schedulers and random states get back what they had. Changes that need a fresh process are ruled out.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from laptime.instrument.step_observer import Stop
from laptime.launch.script import Program
from laptime.launch.trial import RunningTrial
from laptime.records.run import IN_MEMORY, Subject
from laptime.tuning import optimization
from laptime.tuning.script.trial_runner import TrialRunner
from laptime.tuning.search.evaluator import Candidate
from laptime.tuning.trial.messages import Block, TrialPlan, TrialResult
from laptime.tuning.trial.process import TrialProcess
from laptime.tuning.trial.state_snapshot import TrainingSnapshot

_NEEDS_PROCESS = "is decided when a process starts; this one has"
_OF_THE_OPTIMIZER = ("batch_size",)
"""Changes of the loader that need an optimizer with another rate, from its construction on."""
EPOCHS = 10_000
"""Passes over the loader at most: a trial ends itself long before."""
_LOADER_ARGUMENTS = (
    "num_workers", "collate_fn", "pin_memory", "timeout", "worker_init_fn", "multiprocessing_context",
    "generator", "prefetch_factor", "persistent_workers",
)  # fmt: skip
_WORKER_ARGUMENTS = ("prefetch_factor", "persistent_workers", "multiprocessing_context")


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A training that is no script, for `laptime.tune`.

    Attributes:
        model: the module that is trained; of several, one that holds them all (a ModuleList).
        step: one whole training step on a batch: forward, backward, the step of a torch optimizer. State that
            it has outside of models, optimizers and schedulers (a counter, an average of its own) is not
            restored.
        loader: gives the batches; a DataLoader is constructed again with other arguments when that is tried.
        name: for the report.
    """

    model: Any
    step: Callable[[Any], Any]
    loader: Iterable[Any]
    name: str = "problem"


class InMemoryTrialRunner(TrialRunner):
    """Runs trials of a Problem in this process."""

    def __init__(self, problem: Problem, folder: Path, *, timeout: float = 600.0, steps: int = 0) -> None:
        program = Program([problem.name], Subject(target=problem.name, source=IN_MEMORY), "")
        super().__init__(program, folder, timeout=timeout, steps=steps)
        self._problem, self._forks = problem, False

    def obstacle(self, candidate: Candidate) -> str:
        """Only live changes and those of the loader, which every trial makes anew, can be applied here."""
        name = candidate.change.name
        own = optimization.load(name)
        is_possible = own.live or "loader" in own.needs or own.compiles
        if is_possible and name not in _OF_THE_OPTIMIZER:
            return ""
        return f"{candidate.title}: {_NEEDS_PROCESS}"

    @contextmanager
    def run(self, plan: TrialPlan) -> Iterator[RunningTrial]:
        """A trial in this process; its steps run while its blocks are asked for."""
        self.accounting.trials += 1
        Path(plan.folder).mkdir(parents=True, exist_ok=True)
        snapshot = TrainingSnapshot(self._problem.model, generators(self._problem.loader))
        # Scratch folders, memory limits and seeds belong to a process; this one is the user's.
        plan = replace(plan, scratch="", memory=None, seed=None)
        running = InMemoryTrial(self._problem, plan, self.limit(plan), snapshot.optimizers)
        try:
            yield running
        finally:
            running.stop()
            snapshot.restore()
            gc.collect()


class InMemoryTrial(RunningTrial):
    """A trial in this process."""

    def __init__(self, problem: Problem, plan: TrialPlan, timeout: float, optimizers: list[Any]) -> None:
        super().__init__(plan.folder)
        self._until = time.monotonic() + timeout
        self._optimizers = optimizers
        self._problem = problem
        self._process = TrialProcess(plan)

    def blocks(self) -> Iterator[Block]:
        """Run steps, and give every block when it ends."""
        result = self._process.result
        self._process.open()
        self._process.hooks.adopt(self._optimizers)
        try:
            loader = copy_loader(self._problem.loader)
            for _ in range(EPOCHS):
                for batch in loader:
                    self._problem.step(batch)
                    yield from self._messages.new_blocks()
                    self.hung = time.monotonic() > self._until
                    if self.hung or self._process.hooks.stopped:  # a step that swallows every exception
                        return
        except Stop:
            result.ended = "stopped"
        except GeneratorExit:
            result.ended = "stopped"
            raise
        except Exception as error:
            result.ended, result.error = "raised", f"{type(error).__name__}: {error}"
        finally:
            result.status = os.EX_OK
            self._process.close()
        yield from self._messages.new_blocks()

    def stop(self) -> None:
        """Nothing runs between two blocks: its hooks are undone, and that is all. Safe to call twice."""
        self._process.close()

    def finished(self) -> TrialResult:
        self.stop()
        return self._process.result


def copy_loader(loader: Iterable[Any]) -> Iterable[Any]:
    """A DataLoader constructed as it was, so that changes see its construction; others as they are."""
    if not _is_data_loader(loader):
        return loader
    original: Any = loader
    arguments: dict[str, Any] = {name: getattr(original, name) for name in _LOADER_ARGUMENTS}
    if original.batch_size is not None:  # torch has made the batch sampler
        arguments |= {"batch_size": original.batch_size, "drop_last": original.drop_last}
        kind = type(original.sampler).__name__
        if kind == "RandomSampler" and not original.sampler.replacement:
            arguments["shuffle"] = True
        elif kind not in ("SequentialSampler", "_InfiniteConstantSampler"):
            arguments["sampler"] = original.sampler
    elif original.batch_sampler is not None:
        arguments["batch_sampler"] = original.batch_sampler
    else:
        arguments |= {"batch_size": None, "sampler": original.sampler}
    if not arguments["num_workers"]:
        for name in _WORKER_ARGUMENTS:
            arguments.pop(name)
    copy: Iterable[Any] = type(original)(original.dataset, **arguments)
    return copy


def generators(loader: Any) -> list[Any]:
    """The generators that a loader of torch draws from beside the process's own, each once."""
    unique: dict[int, Any] = {}
    for owner in (loader, getattr(loader, "sampler", None), getattr(loader, "batch_sampler", None)):
        generator = getattr(owner, "generator", None)
        if _is_data_loader(loader) and hasattr(generator, "get_state"):
            unique[id(generator)] = generator
    return list(unique.values())


def _is_data_loader(loader: Any) -> bool:
    return any(
        kind.__name__ == "DataLoader" and kind.__module__.startswith("torch.")
        for kind in type(loader).__mro__
    )
