"""What a session of `tune` comes to, as records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Literal, cast

from msgspec import structs

from laptime.analysis.tuned import DRY
from laptime.kit.units import show
from laptime.launch.script import Program
from laptime.probes import machine
from laptime.records.case import Case
from laptime.records.check import Check
from laptime.records.event import (
    CaseChanged,
    ChecksMade,
    EnvironmentChanged,
    RungDecided,
    TuningChanged,
    so_far,
)
from laptime.records.plan import Setting
from laptime.records.run import Run
from laptime.records.series import Series
from laptime.records.tuning import Diagnosis, Measured, Numerics, Rung, Suspect, Tuning
from laptime.store.live_run import LiveRun
from laptime.tuning.candidates import Choice, suspects
from laptime.tuning.loop_profile import SHARES, LoopProfile
from laptime.tuning.optimization import Recipe
from laptime.tuning.recipe_file import applied
from laptime.tuning.search import ranking
from laptime.tuning.search.evaluator import Candidate
from laptime.tuning.search.ladder import SearchResult
from laptime.tuning.search.race import LONGEST
from laptime.tuning.session.final_results import FinalResults
from laptime.tuning.session.request import TuneRequest
from laptime.tuning.session.trial_runner import TrialRunner
from laptime.verbs.profile.reconcile import STEP
from laptime.verbs.profile.run import environment

SUSPECTS = 3
"""That are named."""
PROFILED = "the step under what was kept is that of the profiled script: it was not diagnosed again"
Status = Literal["complete", "interrupted"]
_NAMES = {
    "data": "waiting for data",
    "transfer": "copies to the device",
    "compute": "the model's own computing",
    "other": "what the script does beside the model",
}


def diagnosis(recipe: Recipe, loop_profile: LoopProfile, choice: Choice | None = None) -> Diagnosis:
    """A loop profile as it stands in the record; with a choice, what could save most in it."""
    found = suspects(loop_profile, recipe, choice)[:SUSPECTS] if choice is not None else []
    return Diagnosis(
        recipe=applied(recipe),
        step=loop_profile.step,
        shares=loop_profile.shares,
        what_if=loop_profile.what_if,
        bound=loop_profile.bound,
        sentence=bound_by(loop_profile),
        syncs=[
            {"what": each.detail, "where": f"{each.file}:{each.line}", "count": each.count}
            for each in loop_profile.syncs
        ],
        noise=loop_profile.noise,
        detectable=ranking.detectable(loop_profile.noise, LONGEST[-1]),
        batch=loop_profile.batch,
        peak=loop_profile.peak,
        utilization=utilization(loop_profile),
        facts=sorted(loop_profile.facts),
        notes=list(loop_profile.notes),
        suspects=[
            Suspect(label=str(each.change), title=each.title, saves=each.bound, suggests=suggests)
            for each, suggests in found
        ],
    )


def is_diagnosed(found: SearchResult, runner: TrialRunner) -> bool:
    """Whether the final set was: a diagnosis that takes long and cannot tell anything new is left out."""
    return len(found.recipe) > 0 and any(recipe == found.recipe for recipe, _ in runner.diagnosed)


def bound_by(loop_profile: LoopProfile) -> str:
    """What bounds the step, in words."""
    parts = {
        "data": loop_profile.share("data"),
        "transfer": loop_profile.share("transfer"),
        "compute": loop_profile.share("forward", "backward", "optimizer"),
        "other": loop_profile.share("other"),
    }
    limit = loop_profile.bound
    share = parts[limit] / loop_profile.step if loop_profile.step else 0.0
    return f"{share:.0%} of a step of {show(loop_profile.step, 's')} is {_NAMES[limit]}"


def utilization(loop_profile: LoopProfile) -> float | None:
    """Share of the step that the device works (`trial.busy`); None without an accelerator."""
    busy = loop_profile.details.get("busy")
    return min(1.0, busy / loop_profile.step) if busy is not None and loop_profile.step else None


def with_utilization(rung: Rung, runner: TrialRunner) -> Rung:
    """With the device's share of the step, from the diagnosis that followed when it was kept."""
    for recipe, loop_profile in runner.diagnosed:
        if rung.kept and rung.label in map(str, recipe):
            return structs.replace(rung, utilization=utilization(loop_profile))
    return rung


def planned(candidate: Candidate, seconds: float) -> Rung:
    """A rung of a dry run."""
    return Rung(
        name=candidate.change.name,
        label=str(candidate.change),
        title=candidate.title,
        options=candidate.change.options,
        numerics=cast(Numerics, candidate.numerics),
        bound=candidate.bound,
        seconds=seconds,
        reason=f"would be tried, about {show(seconds, 's')}",
    )


def with_compile_time(rung: Rung, runner: TrialRunner) -> Rung:
    """With what torch.compile took for it, and the steps after which that is won back."""
    seconds = runner.ledger.compiled_by.get(rung.label, 0.0)
    if not seconds:
        return rung
    pays_back = None
    if rung.verdict == "faster" and rung.step and rung.speedup and rung.speedup > 1:
        pays_back = round(seconds / (rung.step * (rung.speedup - 1)))
    return structs.replace(rung, compile_seconds=seconds, pays_back=pays_back)


def dry(
    request: TuneRequest,
    runner: TrialRunner,
    loop_profile: LoopProfile,
    rungs: list[Rung],
    ruled_out: dict[str, str],
) -> Tuning:
    """What a dry run tells."""
    return Tuning(
        goal=request.goal,
        mode="certify" if request.certify else "fast",
        budget=request.budget,
        before=diagnosis(Recipe(), loop_profile, runner.choice),
        ladder=rungs,
        ruled_out=ruled_out,
        trials=runner.ledger.trials,
        seconds_by=runner.ledger.seconds,
        ended="dry run",
    )


def tuning(
    told: Tuning | None, runner: TrialRunner, found: SearchResult | None, finished: FinalResults
) -> Tuning:
    """Everything that is known, of a whole session or of an interrupted one.

    Args:
        told: what its events came to.
    """
    assert told is not None, "a session starts with an empty one"
    told = structs.replace(told, trials=runner.ledger.trials, seconds_by=runner.ledger.seconds)
    if found is None:
        return told
    hunks, left_out = finished.patch.hunks, finished.patch.left_out
    return structs.replace(
        told,
        after=after(runner, found, finished.breakdown_after),
        ladder=[
            structs.replace(
                rung,
                hunk=rung.kept and rung.name in hunks,
                edit=left_out.get(rung.name, "") if rung.kept else "",
            )
            for rung in with_suggested([_complete(rung, runner) for rung in found.ladder], finished.suggested)
        ],
        ruled_out=found.ruled_out,
        baseline=finished.measured[0] if finished.measured else None,
        final=finished.measured[1] if finished.measured else None,
        speedup=finished.speedup,
        recipe=applied(found.recipe),
        recipe_path=finished.recipe_path,
        gate=finished.gate,
        convergence=finished.convergence,
        patch=finished.patch,
        breakdown_before=finished.breakdown_before,
        breakdown_after=finished.breakdown_after,
        ended=found.ended if finished.is_complete else "interrupted",
    )


def after(runner: TrialRunner, found: SearchResult, profiled: dict[str, float]) -> Diagnosis | None:
    """The step under what was kept: as diagnosed or, where that could tell nothing new, as profiled.

    Args:
        profiled: seconds of the patched script's step by part; categories of a trace are no such parts.
    """
    if is_diagnosed(found, runner):
        return diagnosis(found.recipe, found.after, runner.choice)
    if not profiled or not profiled.keys() <= set(SHARES):
        return None
    own = replace(found.after, step=sum(profiled.values()), shares=profiled, what_if={}, notes=(PROFILED,))
    return diagnosis(found.recipe, own)


def with_suggested(ladder: list[Rung], suggested: list[Rung]) -> list[Rung]:
    """The ladder with what is only ever suggested: first what could save more than anything that is tried,
    the rest at the end."""
    most = max((rung.bound or 0.0 for rung in ladder), default=0.0)
    first = [rung for rung in suggested if (rung.bound or 0.0) > most]
    return [*first, *ladder, *(rung for rung in suggested if rung not in first)]


def _complete(rung: Rung, runner: TrialRunner) -> Rung:
    return with_utilization(with_compile_time(rung, runner), runner)


def start(live: LiveRun, request: TuneRequest, program: Program, decided: Sequence[Rung] = ()) -> None:
    """Tell of a run that begins.

    Args:
        decided: by the session that is resumed.
    """
    names = ("budget", "steps", "allow", "strict", "only", "skip", "goal", "max_memory", "certify", "timeout")
    empty = Tuning(
        goal=request.goal,
        mode="certify" if request.certify else "fast",
        budget=request.budget,
        ended="interrupted",
    )
    live.start(
        name=request.name,
        subjects=[program.subject],
        environment=machine.environment(),
        plan={
            name: Setting(value=getattr(request, name), origin=request.origins.get(name, "default"))
            for name in names
        },
        tuning=reduce(so_far, map(RungDecided, decided), empty),
    )


def finish(live: LiveRun, runner: TrialRunner, told: Tuning, *, status: Status, complaint: str = "") -> Run:
    """Tell of what a session came to; the run.

    Args:
        complaint: why its decisions could not be kept, "" when they were.
    """
    live(EnvironmentChanged(environment(runner.trial)))
    for case in _cases(runner, told):
        live(CaseChanged(case))
    live(ChecksMade(_checks(told, complaint)))
    live(TuningChanged(told))
    return live.finish(status)


def _cases(runner: TrialRunner, told: Tuning) -> list[Case]:
    """The two sides that were measured afresh, so that `show`, `compare` and `history` know them."""
    sides = [("baseline", told.baseline), ("final", told.final)]
    return [_case(runner, name, side) for name, side in sides if side is not None]


def _case(runner: TrialRunner, name: str, side: Measured) -> Case:
    device = runner.trial.device.partition(":")[0]
    batch = runner.loop_profile.batch if runner.loop_profile else 1
    samples = [seconds for process in side.samples for seconds in process]
    owners = [number for number, process in enumerate(side.samples) for _ in process]
    return Case(
        key=f"{runner.program.subject.target}/variant={name}/batch={batch}/device={device}",
        target=runner.program.subject.target,
        axes={"variant": name, "batch": batch, "device": device},
        series=[Series(metric=STEP, samples=samples, process=owners, probe="wall")],
    )


def _checks(told: Tuning, complaint: str) -> list[Check]:
    found = []
    if complaint:
        sentence = f"the session could not be kept: {complaint}"
        found.append(
            Check(name="kept", outcome="note", sentence=sentence, next="LAPTIME_HOME=another/FOLDER")
        )
    if told.speedup is None and told.ended == DRY:
        pass  # nobody asked for it
    elif told.speedup is None:
        found.append(Check(name="measured", outcome="note", sentence="no gain was measured afresh"))
    elif told.speedup.word == "unclear":
        low, high = told.speedup.ci95
        sentence = f"{told.speedup.pairs} pairs leave open whether it is faster: [{low:.3g}, {high:.3g}]"
        found.append(Check(name="measured", outcome="warn", sentence=sentence, next="--budget 30m"))
    else:
        pairs = told.speedup.pairs
        found.append(
            Check(name="measured", outcome="ok", sentence=f"measured afresh in {pairs} pairs of processes")
        )
    if told.gate.word == "failed":
        found.append(Check(name="gate", outcome="fail", sentence=told.gate.reason, next="--strict"))
    return found
