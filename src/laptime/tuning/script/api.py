"""`laptime.tune`: a script by its name, or a model, step and loader of this process."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from laptime.kit.errors import UsageError
from laptime.kit.options import requested, takes
from laptime.records.event import Listener
from laptime.records.run import Run
from laptime.tuning.script import subject
from laptime.tuning.script.in_memory import InMemoryTrialRunner, Problem
from laptime.tuning.script.request import TuneRequest, choice_of, trial_limit
from laptime.tuning.script.trial_evaluator import TrialEvaluator
from laptime.tuning.session.journal import SessionJournal
from laptime.tuning.session.session import run_session
from laptime.verbs.public_run import TunedRun, kept

OF_SCRIPTS = ("module", "python", "patch", "resume", "step_by", "max_memory", "timeout")
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
    request = requested(TuneRequest, options, "laptime.tune", **own)
    request.check()
    if isinstance(problem, Problem) and (
        of_scripts := [name for name in OF_SCRIPTS if name in request.origins]
    ):
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
            runner = InMemoryTrialRunner(
                problem, folder, steps=request.steps, timeout=trial_limit(request.budget)
            )
            return subject.ScriptSubject(request, TrialEvaluator(runner, choice, request.budget))

        return run_session(SessionJournal([], "", resume=False, save=False), make, emit)

    return TunedRun.of(kept(work, on_event, save=request.save))


__all__ = ["Problem", "tune"]
