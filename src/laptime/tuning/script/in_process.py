"""`laptime.tune` of a model, a step and a loader, and `laptime.apply`: what happens in this process.

Every trial of a `Problem` runs here, under the same hooks, on a copy of the loader; afterwards models,
optimizers, schedulers and random states get back what they had. Changes that need a fresh process are ruled
out. `with laptime.apply(recipe): main()` has the changes of a recipe on without a patch."""

import gc
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from laptime.instrument.importing import WhenImported
from laptime.instrument.steps import Stop
from laptime.kit.errors import UsageError
from laptime.kit.options import make_request, takes
from laptime.launch.script import Program
from laptime.records.event import Listener
from laptime.records.run import IN_MEMORY, Run, Subject
from laptime.tuning import optimization, recipe_file
from laptime.tuning.optimization import Recipe
from laptime.tuning.script import subject
from laptime.tuning.script.request import TuneRequest, choice_of, trial_limit
from laptime.tuning.script.trial_evaluator import TrialEvaluator
from laptime.tuning.script.trial_process import RunningTrial
from laptime.tuning.script.trial_runner import TrialRunner
from laptime.tuning.search.evaluator import Candidate
from laptime.tuning.session.journal import SessionJournal
from laptime.tuning.session.session import run_session
from laptime.tuning.trial.hooks.loop_hooks import LoopHooks
from laptime.tuning.trial.messages import Block, TrialPlan, TrialResult
from laptime.tuning.trial.process import TrialProcess
from laptime.tuning.trial.state_snapshot import TrainingSnapshot, optimizers
from laptime.verbs.public_run import TunedRun, keep

_NEEDS_PROCESS = "is decided when a process starts; this one has"
_OF_THE_OPTIMIZER = ("batch_size",)
"""Changes of the loader that need an optimizer with another rate, from its construction on."""
EPOCHS = 10_000  # passes over the loader at most: a trial ends itself long before
_LOADER_ARGUMENTS = ("num_workers", "collate_fn", "pin_memory", "timeout", "worker_init_fn", "generator")
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
        return "" if is_possible and name not in _OF_THE_OPTIMIZER else f"{candidate.title}: {_NEEDS_PROCESS}"

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

    def finish(self) -> TrialResult:
        self.stop()
        return self._process.result


def copy_loader(loader: Any) -> Any:
    """A DataLoader constructed as it was, so that changes see its construction; others as they are."""
    if not _is_data_loader(loader):
        return loader
    names = [*_LOADER_ARGUMENTS, *(_WORKER_ARGUMENTS if loader.num_workers else ())]
    arguments = {name: getattr(loader, name) for name in names}
    if loader.batch_size is not None:  # torch has made the batch sampler
        arguments |= {"batch_size": loader.batch_size, "drop_last": loader.drop_last}
        kind = type(loader.sampler).__name__
        if kind == "RandomSampler" and not loader.sampler.replacement:
            arguments["shuffle"] = True
        elif kind not in ("SequentialSampler", "_InfiniteConstantSampler"):
            arguments["sampler"] = loader.sampler
    elif loader.batch_sampler is not None:
        arguments["batch_sampler"] = loader.batch_sampler
    else:
        arguments |= {"batch_size": None, "sampler": loader.sampler}
    return type(loader)(loader.dataset, **arguments)


def generators(loader: Any) -> list[Any]:
    """The generators that a loader of torch draws from beside the process's own, each once."""
    owners = (loader, getattr(loader, "sampler", None), getattr(loader, "batch_sampler", None))
    found = [getattr(owner, "generator", None) for owner in owners if _is_data_loader(loader)]
    return list({id(each): each for each in found if hasattr(each, "get_state")}.values())


def _is_data_loader(loader: Any) -> bool:
    return any(
        kind.__name__ == "DataLoader" and kind.__module__.startswith("torch.")
        for kind in type(loader).__mro__
    )


# laptime.tune


OF_SCRIPTS = ("module", "python", "resume", "step_by", "max_memory", "timeout")
"""Options that a problem of this process does not have."""


@takes(TuneRequest, save=False)
def tune(
    problem: Problem | str | Path,
    arguments: Sequence[str] = (),
    *,
    on_event: Listener | None = None,
    **options: Any,
) -> TunedRun:
    """Make a training faster, and say by how much.

        run = laptime.tune(laptime.Problem(model=model, step=step, loader=loader), budget=120)
        print(run.tuning.speedup, run.tuning.recipe)

    Args:
        problem: a script's path, tuned in fresh processes as by `laptime tune script`; or a `Problem`, tuned
            in this process: its models and optimizers are restored, and no file is written.
        arguments: of the script.
        on_event: gets every event when it happens.
        options: as those of `laptime tune script`, with values or as they are typed there: `budget=120` or
            `budget="2m"`. `save=True` keeps the run under .laptime/.

    Returns:
        The run; `laptime.apply(run)` has its changes on inside a block.

    Raises:
        UsageError: there is no training in it, or a name is unknown. UserCodeError: it fails as it is.
    """
    program = problem.name if isinstance(problem, Problem) else str(problem)
    own = {"program": program, "arguments": [*arguments], "save": False}
    request = make_request(TuneRequest, options, "laptime.tune", **own)
    request.check()
    of_scripts = [name for name in OF_SCRIPTS if name in request.origins]
    if isinstance(problem, Problem) and of_scripts:
        raise UsageError(
            f"{of_scripts[0]}= is for scripts",
            why="a Problem is tuned in this process: nothing is started, and no file is patched",
            next="leave it out, or laptime.tune('train.py', ...)",
        )

    def work(emit: Listener) -> Run:
        if not isinstance(problem, Problem):
            return subject.tune(request, emit)
        choice = choice_of(request)

        def make(folder: Path) -> subject.ScriptSubject:
            limit = trial_limit(request.budget)
            runner = InMemoryTrialRunner(problem, folder, steps=request.steps, timeout=limit)
            return subject.ScriptSubject(request, TrialEvaluator(runner, choice, request.budget))

        return run_session(SessionJournal([], "", resume=False, save=False), make, emit)

    return TunedRun.of(keep(work, on_event, save=request.save))


__all__ = ["Problem", "tune"]


# laptime.apply


_CONSTRUCTIONS = dict.fromkeys(("loader", "worker", "dataset"), "DataLoader") | {"optimizer": "optimizer"}
"""Callbacks of a Loop that are only called when something is constructed, and what."""


@contextmanager
def apply(recipe: Run | Recipe | Path | str | list[dict[str, Any]]) -> "Iterator[AppliedChanges]":
    """Apply a recipe to the loaders, optimizers and models that the block makes and uses.

        with laptime.apply("train.laptime.json") as applied:
            main()
        print(applied.refused)

    Args:
        recipe: a file that `laptime tune` has left, the run of a session, or changes as
            `[{"name": "channels_last"}, {"name": "num_workers", "options": {"value": 2}}]`.

    Models and optimizers from before the block are changed, too, and restored at its end. A DataLoader is
    changed where it is made: one from before stays as it is, and `refused` says so.

    Yields:
        The applied changes: `refused` names those that this loop could not take, with the reason, `left`
        those that could not be undone.

    Raises:
        UsageError: it is not a recipe, or it has an unknown optimization.
    """
    changes = changes_of(recipe)
    for name in changes.names:
        optimization.load(name)
    applied = AppliedChanges(changes.to_json())
    applied.open()
    try:
        yield applied
    finally:
        applied.close()


def changes_of(recipe: Any) -> Recipe:
    """A recipe from any of its forms. Raises UsageError: it is none."""
    if isinstance(recipe, Recipe):
        return recipe
    if isinstance(recipe, Run):
        if recipe.tuning is None:
            raise UsageError(f"run {recipe.id} has no recipe", why=f"it is one of laptime {recipe.verb}")
        return recipe_file.recipe_of(recipe.tuning)
    if isinstance(recipe, str | Path):
        return recipe_file.recipe_of(recipe_file.read(Path(recipe)))
    try:
        return Recipe.from_json(recipe)
    except (KeyError, TypeError, AttributeError) as error:
        raise UsageError(
            "this is not a recipe",
            why=f"{type(error).__name__}: {error}",
            next='laptime.apply([{"name": "channels_last"}])',
        ) from error


class AppliedChanges:
    """Changes that are on from `open` to `close`: nothing is timed, nothing is stopped. refused: changes that
    this loop could not take: {"name", "why"}. Those that wait for a construction that did not happen inside
    the block are added by `close`. left: what could not be given back at the end; empty when all is well."""

    def __init__(self, changes: list[dict[str, Any]]) -> None:
        by_script = {each["name"]: words for each in changes if (words := each["options"].get("arguments"))}
        attached = [change for change in changes if change["name"] not in by_script]
        self._hooks = LoopHooks(TrialPlan(folder="", base=attached))
        self._import_hook = WhenImported("torch", self._hooks.install)
        self.refused, self.left = self._hooks.refused, self._hooks.result.left
        for name, words in by_script.items():
            self.refused.append({"name": name, "why": f"the script does it itself, by {' '.join(words)}"})

    def open(self) -> None:
        """Apply now, or as soon as torch is imported."""
        existing = optimizers()
        self._import_hook.install()
        self._hooks.adopt(existing)

    def close(self) -> None:
        """Give everything back."""
        self._import_hook.remove()
        if "torch" in sys.modules:
            kinds = {"DataLoader" if call.kind == "DataLoader" else "optimizer" for call in self._hooks.calls}
            for loop in list(self._hooks.changes.changes):
                waiting = {name for kind, name in _CONSTRUCTIONS.items() if loop.callbacks[kind]}
                if waiting - kinds:
                    what = " and no ".join(sorted(waiting - kinds))
                    self._hooks.changes.refuse(loop, f"no {what} was made inside the block")
        self._hooks.undo()
