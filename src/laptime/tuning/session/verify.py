"""`verify`: does an earlier result of `tune` still hold, here and now?"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from laptime.records.event import Diagnosed, FindingAdded, GainMeasured, Listener, ignore
from laptime.records.finding import Finding
from laptime.records.plan import Origin
from laptime.records.run import Run
from laptime.records.tuning import Gate, Tuning
from laptime.store.live_run import LiveRun
from laptime.tuning import recipe_file
from laptime.tuning.candidates import numerics_of
from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.optimization import Recipe
from laptime.tuning.recipe_file import RecipeFile, environment_of
from laptime.tuning.search.evaluator import TrialFailed
from laptime.tuning.session import tuning_record
from laptime.tuning.session.after_search import measure
from laptime.tuning.session.diagnosis_record import diagnosis
from laptime.tuning.session.final_results import FinalResults
from laptime.tuning.session.refusals import refusal
from laptime.tuning.session.request import TuneRequest, choice_of, program_of
from laptime.tuning.session.trial_evaluator import TrialEvaluator
from laptime.tuning.session.trial_runner import TrialRunner
from laptime.tuning.session.work_folder import work_folder
from laptime.verbs.profile.run import environment


@dataclass(frozen=True, kw_only=True)
class VerifyRequest:
    """What `laptime verify` can be tune_request.

    Attributes:
        recipe: the file that `tune` has left, as `train.laptime.json`.
        budget: seconds at most.
        python: interpreter to run the script with; "": laptime's own.
        timeout: seconds that one trial may take at most.
        output_to_stderr: what the script prints goes there.
    """

    recipe: Path
    budget: float = 300.0
    python: str = ""
    timeout: float = 600.0
    output_to_stderr: bool = True
    quiet: bool = False
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
    recipe = file.changes()
    with work_folder("verify") as folder:
        runner = TrialRunner(program, folder, timeout=request.timeout)
        evaluator = TrialEvaluator(runner, choice_of(tune_request))
        results = FinalResults()
        tuning_record.start(live, tune_request, program)
        try:
            live.say("diagnosing the script as it is", 0.0, request.budget)
            loop_profile = evaluator.diagnose(Recipe())
            live(Diagnosed(diagnosis(Recipe(), loop_profile)))
            results.gate = _gate(evaluator, recipe, loop_profile)
            live.say("measuring in new processes", 0.4, 0.6 * request.budget)
            measure(evaluator, recipe, results, budget=request.budget, noise=loop_profile.noise)
        except TrialFailed as failed:
            raise refusal(file.program, failed) from failed
        if results.measured is not None:
            live(GainMeasured(*results.measured))
        tuning = Tuning(
            budget=request.budget,
            before=diagnosis(Recipe(), loop_profile),
            baseline=results.measured[0] if results.measured else None,
            final=results.measured[1] if results.measured else None,
            speedup=results.speedup,
            recipe=file.recipe,
            recipe_path=str(request.recipe),
            gate=results.gate,
            convergence=results.convergence,
            seconds_by=runner.accounting.seconds,
            trials=runner.accounting.trials,
        )
        now = environment_of(environment(runner.newest))
        live(FindingAdded(_earlier(file, results, now, changed=program.subject.sha256 != file.sha256)))
        return tuning_record.finish(live, evaluator, tuning, status="complete")


def _gate(evaluator: TrialEvaluator, recipe: Recipe, loop_profile: LoopProfile) -> Gate:
    try:
        return evaluator.gate(Recipe(), recipe, numerics_of(recipe, loop_profile))
    except TrialFailed as failed:
        return Gate(word="failed", reason=f"the recipe does not run any more: {failed.why}")


def holds(run: Run) -> bool | None:
    """Whether the earlier result still holds: its gate passes and the script is faster; None: undecided."""
    found = run.tuning
    if found is None or found.gate.word == "failed":
        return False
    if found.speedup is None or found.gate.word != "passed" or found.speedup.word == "unclear":
        return None
    return found.speedup.word == "faster"


def _earlier(file: RecipeFile, results: FinalResults, now: dict[str, Any], *, changed: bool) -> Finding:
    """What it was, what it is, and what has changed in between."""
    was = f"{file.speedup.value:.2f}x" if file.speedup else "no measured gain"
    is_now = f"{results.speedup.value:.2f}x" if results.speedup else "not measured"
    differences = [name for name, value in file.environment.items() if now.get(name) != value]
    if changed:
        differences.append("the script")
    since = (
        f"; changed since then: {', '.join(differences)}" if differences else "; nothing has changed since"
    )
    return Finding(
        kind="tune/verified",
        severity="info",
        sentence=f"the recipe's gain was {was}, it is {is_now}{since}",
        evidence={
            "was": file.speedup.value if file.speedup else None,
            "is": results.speedup.value if results.speedup else None,
            "changed": differences,
        },
    )
