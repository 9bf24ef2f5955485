"""`verify`: does an earlier result of `tune` still hold, here and now?"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from laptime.records.event import Diagnosed, FindingAdded, GainMeasured, Listener, ignore
from laptime.records.finding import Finding
from laptime.records.plan import Origin
from laptime.records.run import Run
from laptime.records.tuning import Speedup, Tuning
from laptime.store.live_run import LiveRun
from laptime.tuning import recipe_file
from laptime.tuning.optimization import Recipe
from laptime.tuning.recipe_file import RecipeFile, environment_of
from laptime.tuning.search.evaluator import TrialFailed
from laptime.tuning.session import tuning_record
from laptime.tuning.session.after_search import gate_of, measure
from laptime.tuning.session.diagnosis_record import diagnosis
from laptime.tuning.session.refusals import refusal
from laptime.tuning.session.request import TuneRequest, choice_of, program_of
from laptime.tuning.session.trial_evaluator import TrialEvaluator
from laptime.tuning.session.trial_runner import TrialRunner
from laptime.tuning.session.tuning_record import FinalResults
from laptime.tuning.session.work_folder import work_folder
from laptime.verbs.profile.run import environment


@dataclass(frozen=True, kw_only=True)
class VerifyRequest:
    """The options of `laptime verify`.

    Attributes:
        recipe: the file that `tune` has left, as `train.laptime.json`.
        budget: seconds at most.
        python: interpreter to run the script with; "": laptime's own.
        timeout: seconds that one trial may take at most.
        headers: of the requests to a server; their values are not stored.
    """

    recipe: Path = Path()
    budget: float = 300.0
    python: str = ""
    timeout: float = 600.0
    headers: list[tuple[str, str]] = field(default_factory=list)
    name: str = ""
    save: bool = True
    origins: dict[str, Origin] = field(default_factory=dict)


def verify(request: VerifyRequest, emit: Listener = ignore) -> Run:
    """Time the script with and without the recipe in new processes, and gate the recipe again.

    Returns:
        The run, of verb `verify`; its `tuning` has baseline, final, speedup and gate as they are now, and the
        earlier gain in its findings.

    Raises:
        UsageError: the file is no recipe, or its script is gone. UserCodeError: the script failed as it is.
    """
    live = LiveRun("verify", emit)
    file = recipe_file.read(request.recipe)
    tune_request = TuneRequest(
        program=file.program,
        arguments=file.arguments,
        module=file.module,
        python=request.python,
        budget=request.budget,
        timeout=request.timeout,
        name=request.name,
        save=request.save,
        origins=request.origins,
    )
    program = program_of(tune_request)
    recipe = recipe_file.recipe_of(file)
    with work_folder("verify") as folder:
        runner = TrialRunner(program, folder, timeout=request.timeout)
        evaluator = TrialEvaluator(runner, choice_of(tune_request))
        tuning = Tuning(budget=request.budget, recipe=file.recipe, recipe_path=str(request.recipe))
        results = FinalResults(live.id, tuning)
        tuning_record.start(live, tune_request, program)
        try:
            live.say("diagnosing the script as it is", 0.0, request.budget)
            loop_profile = evaluator.diagnose(Recipe())
            runner.ends = request.budget  # a diagnosis is needed in any case
            results.set(before=diagnosis(Recipe(), loop_profile))
            live(Diagnosed(diagnosis(Recipe(), loop_profile)))
            broken = "the recipe does not run any more: "
            results.set(gate=gate_of(evaluator, recipe, loop_profile, "failed", broken))
            live.say("measuring in new processes", 0.4, 0.6 * request.budget)
            step, noise = loop_profile.step, loop_profile.noise
            measure(evaluator, recipe, results, budget=request.budget, noise=noise, step=step)
        except TrialFailed as failed:
            raise refusal(file.program, failed) from failed
        results.set(seconds_by=runner.accounting.seconds, trials=runner.accounting.trials)
        tuning = results.tuning
        if tuning.baseline is not None and tuning.final is not None:
            live(GainMeasured(tuning.baseline, tuning.final))
        now = environment_of(environment(runner.newest))
        is_edited = program.subject.sha256 != file.sha256
        live(FindingAdded(_since_then(file, tuning.speedup, now, is_edited=is_edited)))
        return tuning_record.finish(live, evaluator, tuning, status="complete")


def holds(run: Run) -> bool | None:
    """Whether the earlier result still holds: its gate passes and the script is faster; None: undecided."""
    tuning = run.tuning
    if tuning is None or tuning.gate.word == "failed":
        return False
    if tuning.speedup is None or tuning.gate.word != "passed" or tuning.speedup.word == "unclear":
        return None
    return tuning.speedup.word == "faster"


def _since_then(
    file: RecipeFile, speedup: Speedup | None, now: dict[str, Any], *, is_edited: bool
) -> Finding:
    """The gain then and now, and what has changed in between."""
    changed = [name for name, value in file.environment.items() if now.get(name) != value]
    return gain_since_then(file.speedup, speedup, [*changed, *["the script"] * is_edited])


def gain_since_then(was: Speedup | None, now: Speedup | None, changed: list[str]) -> Finding:
    """The gain then and now, and what has changed in between."""
    gain_then = f"{was.value:.2f}x" if was else "no measured gain"
    gain_now = f"{now.value:.2f}x" if now else "not measured"
    changes = f"changed since then: {', '.join(changed)}" if changed else "nothing has changed since"
    return Finding(
        kind="tune/verified",
        severity="info",
        sentence=f"the recipe's gain was {gain_then}, it is {gain_now}; {changes}",
        evidence={"was": was.value if was else None, "is": now.value if now else None, "changed": changed},
    )
