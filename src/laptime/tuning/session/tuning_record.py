"""The record of a session: its `Tuning`, and the events of its `Run`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from msgspec import structs

from laptime.kit.units import show
from laptime.launch.script import Program
from laptime.records.run import Run
from laptime.records.tuning import Rung, Tuning
from laptime.store.live_run import LiveRun
from laptime.tuning.recipe_file import applied
from laptime.tuning.search.evaluator import Candidate
from laptime.tuning.search.ladder import SearchResult
from laptime.tuning.search.rungs import untried_rung
from laptime.tuning.session import run_events
from laptime.tuning.session.diagnosis_record import diagnosis_after, utilization
from laptime.tuning.session.request import TuneRequest
from laptime.tuning.session.trial_evaluator import TrialEvaluator
from laptime.tuning.session.trial_runner import TrialAccounting
from laptime.verbs.profile.run import environment

_SETTINGS = (
    "budget", "steps", "allow", "strict", "only", "skip", "goal", "max_memory", "certify", "timeout",
)  # fmt: skip


# Rungs


def planned(candidate: Candidate, seconds: float) -> Rung:
    """The rung of a candidate in a dry run."""
    reason = f"would be tried, about {show(seconds, 's')}"
    return structs.replace(untried_rung(candidate), seconds=seconds, reason=reason)


def with_compile_time(rung: Rung, accounting: TrialAccounting) -> Rung:
    """The rung with the seconds of torch.compile, and the steps after which they are won back."""
    seconds = accounting.compiled_by.get(rung.label, 0.0)
    if not seconds:
        return rung
    pays_back = None
    if rung.verdict == "faster" and rung.step and rung.speedup and rung.speedup > 1:
        pays_back = round(seconds / (rung.step * (rung.speedup - 1)))
    return structs.replace(rung, compile_seconds=seconds, pays_back=pays_back)


def with_utilization(rung: Rung, evaluator: TrialEvaluator) -> Rung:
    """A kept rung with the device's share of the step, from the first diagnosis that has its change."""
    for recipe, loop_profile in evaluator.profiles.items():
        if rung.kept and rung.label in map(str, recipe):
            return structs.replace(rung, utilization=utilization(loop_profile))
    return rung


def kept(live: LiveRun) -> str:
    """Labels of the rungs that a live session has kept so far; "" for none."""
    tuning = live.run().tuning
    return ", ".join(rung.label for rung in tuning.ladder if rung.kept) if tuning else ""


def with_suggested(ladder: list[Rung], suggested: list[Rung]) -> list[Rung]:
    """The ladder with the suggested rungs: those that could save most come first, the others last."""
    most = max((rung.bound or 0.0 for rung in ladder), default=0.0)
    first = [rung for rung in suggested if (rung.bound or 0.0) > most]
    return [*first, *ladder, *(rung for rung in suggested if rung not in first)]


# The tuning


@dataclass
class FinalResults:
    """The results after a search.

    Attributes:
        run_id: of the session, for the recipe file.
        tuning: the record with the gain, the gate of the whole set, the patch and the step's parts so far.
        suggested: rungs of changes that are only ever suggested.
        is_complete: nothing was left out.
    """

    run_id: str
    tuning: Tuning
    suggested: list[Rung] = field(default_factory=list)
    is_complete: bool = False

    def set(self, **fields: Any) -> None:
        """Set fields of the record."""
        self.tuning = structs.replace(self.tuning, **fields)

    def set_patch(self, **fields: Any) -> None:
        """Set fields of the record's patch."""
        self.set(patch=structs.replace(self.tuning.patch, **fields))


def empty(request: TuneRequest) -> Tuning:
    """The tuning of a session that begins."""
    return Tuning(
        goal=request.goal,
        mode="certify" if request.certify else "fast",
        budget=request.budget,
        ended="interrupted",
    )


def tuning(
    recorded: Tuning, evaluator: TrialEvaluator, search: SearchResult | None, results: FinalResults
) -> Tuning:
    """The tuning of a session, whole or interrupted.

    Args:
        recorded: from its events. search: None where it was interrupted before the search ended.
    """
    accounting = evaluator.runner.accounting
    spent: dict[str, Any] = {"trials": accounting.trials, "seconds_by": accounting.seconds}
    if search is None:
        return structs.replace(recorded, **spent)
    ladder = [with_utilization(with_compile_time(rung, accounting), evaluator) for rung in search.ladder]
    return structs.replace(
        results.tuning,
        before=recorded.before,
        after=diagnosis_after(search, evaluator, results.tuning.breakdown_after),
        ladder=[_with_edit(rung, results) for rung in with_suggested(ladder, results.suggested)],
        ruled_out=search.ruled_out,
        recipe=applied(search.recipe),
        ended=search.ended if results.is_complete else "interrupted",
        why_ended=search.why_ended if results.is_complete else "",
        **spent,
    )


def _with_edit(rung: Rung, results: FinalResults) -> Rung:
    if not rung.kept:
        return structs.replace(rung, hunk=False, edit="")
    patch = results.tuning.patch
    return structs.replace(rung, hunk=rung.name in patch.hunks, edit=patch.left_out.get(rung.name, ""))


# The run


def start(live: LiveRun, request: TuneRequest, program: Program, earlier: Sequence[Rung] = ()) -> None:
    """Report a run that begins.

    Args:
        earlier: rungs of the session that is resumed.
    """
    run_events.start(live, request, _SETTINGS, program.subject, empty(request), earlier)


def finish(
    live: LiveRun,
    evaluator: TrialEvaluator,
    tuning: Tuning,
    *,
    status: Literal["complete", "interrupted"],
    complaint: str = "",
    others: float | None = None,
) -> Run:
    """Report the tuning of a session; the run.

    Args:
        complaint, others: see `run_events.finish`.
    """
    runner = evaluator.runner
    return run_events.finish(
        live,
        tuning,
        environment=environment(runner.newest),
        axes={
            "batch": evaluator.loop_profile.batch if evaluator.loop_profile else 1,
            "device": runner.newest.device.partition(":")[0],
        },
        status=status,
        complaint=complaint,
        others=others,
    )
