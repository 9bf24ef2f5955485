"""Changes that are never applied on their own, as one diff: each was run by us before it is shown."""

from __future__ import annotations

import math

from msgspec import structs

from laptime.records.tuning import Rung
from laptime.tuning import optimization
from laptime.tuning.candidates import suggested
from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.optimization import CannotEdit, Change, Recipe
from laptime.tuning.patch import diff as patch_check
from laptime.tuning.patch.sources import Sources
from laptime.tuning.script.patching import main_file
from laptime.tuning.script.sides import cost, same_losses, timed_seconds
from laptime.tuning.script.trial_evaluator import TrialEvaluator
from laptime.tuning.script.trial_runner import START
from laptime.tuning.search.evaluator import Candidate, TrialFailed
from laptime.tuning.search.race import untried_rung

RUN = "suggested, not applied: it was run and has the losses of the script; see the diff"


def suggestions(
    evaluator: TrialEvaluator, loop_profile: LoopProfile, *, end: float = math.inf
) -> tuple[list[Rung], str]:
    """What can be suggested and what cannot, as rungs; the diff of what can.

    Args:
        end: second of the session after which nothing is run, and so nothing suggested.
    """
    rungs: list[Rung] = []
    shown: list[Change] = []
    diff = ""
    for change in suggested(loop_profile, evaluator.choice):
        why, text = _tried(evaluator, loop_profile, [*shown, change], end)
        rung = _rung(change, loop_profile)
        if why:
            rungs.append(structs.replace(rung, reason=f"nothing to suggest: {why}"))
            continue
        shown.append(change)
        diff = text
        rungs.append(structs.replace(rung, verdict="suggested", reason=RUN, suggestion=text))
    return rungs, diff


def planned(evaluator: TrialEvaluator, loop_profile: LoopProfile) -> list[Rung]:
    """What would be run and then suggested, as rungs of a dry run."""
    changes = suggested(loop_profile, evaluator.choice)
    reason = "would be run, and shown as a diff if the losses stay the same"
    return [
        structs.replace(_rung(change, loop_profile), verdict="suggested", reason=reason) for change in changes
    ]


def _rung(change: Change, loop_profile: LoopProfile) -> Rung:
    own = optimization.load(change.name)
    bound = own.bound(loop_profile, change.options)
    return untried_rung(Candidate(change, own.title, own.numerics, bound))


def _tried(
    evaluator: TrialEvaluator, loop_profile: LoopProfile, changes: list[Change], end: float
) -> tuple[str, str]:
    """Why these changes of the source cannot be shown, "" where they can; and their diff."""
    runner = evaluator.runner
    sources = Sources(loop_profile.sites + loop_profile.syncs, main_file(evaluator), loop_profile.device)
    try:
        for change in changes:
            sources.apply(change, f"suggested, {optimization.load(change.name).title}")
        diff = sources.diff()
        copies = patch_check.patched(diff, sources.root, runner.folder / "suggested")
    except (CannotEdit, patch_check.DoesNotApply) as error:
        return str(error), ""
    seconds = 2 * cost(runner.accounting.first_step or START, loop_profile.step, end)
    if runner.elapsed() + seconds > end:
        return "no time was left to run it", ""
    try:
        with runner.accounting.spent_on("patch"):
            pair = runner.pair(Recipe(), Recipe(), 0, sources=copies, seconds=timed_seconds(end))
    except TrialFailed as failed:
        return f"with it the script does not run: {failed.why}", ""
    if same_losses([pair], [pair.baseline]) is False:
        return "with it the script has other losses", ""
    return "", diff
