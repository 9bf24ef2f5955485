"""`laptime.tune`: a script by its name, or a model, step and loader of this process."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from laptime.records.event import Listener, ignore
from laptime.records.run import Run
from laptime.store.recording import recorded
from laptime.tuning.script import subject
from laptime.tuning.script.in_memory import InMemoryTrialRunner, Problem
from laptime.tuning.script.request import TuneRequest, choice_of, trial_limit
from laptime.tuning.script.trial_evaluator import TrialEvaluator
from laptime.tuning.session.journal import SessionJournal
from laptime.tuning.session.session import run_session
from laptime.verbs.public_run import TunedRun


def tune(
    problem: Problem | str | Path,
    arguments: Sequence[str] = (),
    *,
    budget: float = 600.0,
    steps: int = 0,
    allow: Sequence[str] = (),
    strict: bool = False,
    only: Sequence[str] = (),
    skip: Sequence[str] = (),
    goal: Literal["throughput", "memory"] = "throughput",
    certify: bool = False,
    patch: Path | None = None,
    name: str = "",
    save: bool = False,
    on_event: Listener | None = None,
) -> TunedRun:
    """Make a training faster, and say by how much.

        run = laptime.tune(laptime.Problem(model=model, step=step, loader=loader), budget=120)
        print(run.tuning.speedup, run.tuning.recipe)

    Args:
        problem: a script's path, tuned in fresh processes as `laptime tune` does; or a `Problem`, tuned in
            this process: its models and optimizers are restored, and no file is written.
        arguments: of the script.
        budget: seconds. steps: timed steps in a block; 0 finds out.
        allow, strict, only, skip, goal, certify: as the options of `laptime tune`.
        patch: where a script's patch goes.
        on_event: gets every event when it happens.

    Returns:
        The run; `laptime.apply(run)` has its changes on inside a block.

    Raises:
        UsageError: there is no training in it, or a name is unknown. UserCodeError: it fails as it is.
    """
    request = TuneRequest(
        program=problem.name if isinstance(problem, Problem) else str(problem),
        arguments=list(arguments),
        budget=budget,
        steps=steps,
        allow=list(allow),
        strict=strict,
        only=list(only),
        skip=list(skip),
        goal=goal,
        certify=certify,
        patch=patch,
        name=name,
        save=save,
    )

    def work(emit: Listener) -> Run:
        if not isinstance(problem, Problem):
            return subject.tune(request, emit)
        choice = choice_of(request)

        def make(folder: Path) -> subject.ScriptSubject:
            runner = InMemoryTrialRunner(problem, folder, steps=steps, timeout=trial_limit(budget))
            return subject.ScriptSubject(request, TrialEvaluator(runner, choice, request.budget))

        return run_session(SessionJournal([], "", resume=False, save=False), make, emit)

    if not save:
        return TunedRun.of(work(on_event or ignore))
    run, complaint = recorded(work, *([on_event] if on_event else []))
    if complaint is not None:
        warnings.warn(str(complaint), stacklevel=2)
    return TunedRun.of(run)


__all__ = ["Problem", "tune"]
