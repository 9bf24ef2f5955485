"""After the search of a script: pairs of trials in fresh processes, the patch, what is only suggested.

Pairs: how long they are timed, what they cost, what else they show. The patch is the recipe as an edit of the
user's source: written, checked, run. Changes that are never applied on their own are shown as one diff: each
was run by us before."""

import math
import os
import shlex
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from statistics import mean

from msgspec import structs

from laptime.kit.text import from_here
from laptime.records.tuning import Convergence, Rung, Speedup
from laptime.store.folder import write_whole
from laptime.tuning import optimization
from laptime.tuning.candidates import suggest
from laptime.tuning.gates import verdict
from laptime.tuning.loop_profile import FACT_SENTENCES, LoopProfile
from laptime.tuning.optimization import IN_FILE, CannotEdit, Change, Recipe
from laptime.tuning.patch.diff import DoesNotApply
from laptime.tuning.patch.sources import Sources
from laptime.tuning.recipe_file import RecipeFile, encode, environment_of, list_applied, sha256_of
from laptime.tuning.script import switches
from laptime.tuning.script import trial_runner as trials
from laptime.tuning.script.request import TuneRequest
from laptime.tuning.script.trial_evaluator import TrialEvaluator, main_file
from laptime.tuning.script.trial_runner import START, TimedTrial, TrialPair, fewest_rounds
from laptime.tuning.search.evaluator import Candidate, TrialFailed
from laptime.tuning.search.ladder import SearchResult
from laptime.tuning.search.race import make_rung
from laptime.tuning.session.final_gain import FinalCost
from laptime.tuning.session.subject import Record
from laptime.tuning.time_accounting import TrialAccounting
from laptime.verbs.profile.run import environment

SAME_LOSS = 1e-3  # largest difference of two losses that are called the same, as a share of their size
GATE_TRIALS, MORE_GATE_TRIALS = 4, 2
"""Trials of the first gate, about: the script twice, what rounding does to it, the change; of a later one."""
CAPTURED = 4  # steps of a trial of a gate, about


def cost(start: float, step: float) -> float:
    """Seconds of one side of a pair, about: to its first step, steps that do not count, the fewest turns."""
    turn = trials.plan_resettle(step) + trials.block_steps(step)
    return start + (trials.plan_settle(step, trials.SETTLED) + fewest_rounds(step) * turn) * step


def final_cost(
    accounting: TrialAccounting, script: LoopProfile, *, step: float, changes: Iterable[str] = ()
) -> FinalCost:
    """Return the cost after a search that ends now, with one more change in the gate. accounting: session's.
    script: the loop profile of the script as it is. step: the final set's seconds a step. changes: labels of
    the final set."""
    start, pace = accounting.first_step or START, accounting.pace  # these are fresh interpreters
    compiling = sum(accounting.compiled_last.get(label, 0.0) for label in changes)
    baseline = cost(start, script.step) + accounting.ending
    final = cost(start, step) + accounting.ending + compiling
    captured = (accounting.forked_step or start) + CAPTURED * script.step + accounting.ending
    newest = accounting.gate_trial
    gate = GATE_TRIALS * captured if newest is None else MORE_GATE_TRIALS * newest
    fork = accounting.forked_step or START
    forks = cost(fork, script.step) + cost(fork, step) + compiling
    return FinalCost(
        gate=gate + compiling,
        pair=pace * (baseline + final),
        hurried=pace * (forks + 2 * accounting.ending) if accounting.forks else math.inf,
        check=pace * final,
    )


def convergence_of(pairs: list[TrialPair], numerics: str) -> Convergence:
    """A free, short look at convergence: the losses of the pairs, which share their seeds and data."""
    if numerics == "exact" or not pairs:
        return Convergence()
    before = [pair.baseline.losses for pair in pairs]
    allowed = verdict.margin(before)  # fixed before the other side is looked at
    return verdict.judge_loss(before, [pair.final.losses for pair in pairs], allowed)


def same_losses(pair: TrialPair, recipe: TimedTrial) -> bool | None:
    """Whether the patched script's losses are those of the recipe, step by step; None: not comparable.

    A recipe that rounds otherwise moves losses away from the script's own, more with each step. An edit that
    rounds otherwise than the hooks do moves them as far, in another direction."""
    losses = list(zip(pair.final.losses, recipe.losses, strict=False))
    moved = zip(pair.baseline.losses, recipe.losses, strict=False)
    if not losses:
        return None
    scale = mean(abs(original) for _, original in losses) or 1.0
    allowed = max(SAME_LOSS * scale, 2 * max((abs(own - other) for own, other in moved), default=0.0))
    return all(abs(patched - original) <= allowed for patched, original in losses)


def find_missing(pair: TrialPair, recipe: TimedTrial) -> list[str]:
    """Return the effects on a step that the recipe has at run time and the patch does not, in words."""
    before, patched, raced = (set(side.result.effects) for side in (pair.baseline, pair.final, recipe))
    missing = (raced ^ before) & (raced ^ patched) if before and patched and raced else set()
    return [FACT_SENTENCES[fact][fact not in patched] for fact in sorted(missing) if fact in FACT_SENTENCES]


# The patch


UNTIMED = "the patched script was not timed: it does not run, or the budget was spent"


class PatchWriter:
    """The patch and the recipe file of one session: written, checked, run, timed."""

    def __init__(
        self, request: TuneRequest, evaluator: TrialEvaluator, search: SearchResult, record: Record
    ) -> None:
        """`record` takes what comes of it."""
        self._request, self._evaluator, self._search, self._record = request, evaluator, search, record
        self._copies: dict[str, str] = {}

    def write(self) -> dict[str, str]:
        """Write the patch beside the script, or where the request says. Returns copies of the edited files,
        by the path that each stands in for; none when nothing was edited."""
        sources, hunks, left_out = self.edit()
        text = sources.diff()
        left_out |= self._record.tuning.patch.left_out
        self._record.set_part("patch", text=text, hunks=hunks, left_out=left_out, command=self._command())
        if not text:
            return {}
        # What runs is the very diff that the user gets; one that does not apply cannot run.
        with suppress(DoesNotApply):
            self._copies = sources.patch_copies(self._evaluator.runner.folder / "patched")
        files = {from_here(path): sha256_of(Path(copy)) for path, copy in self._copies.items()}
        self._record.set_part("patch", applies=bool(self._copies), files=files)
        path = self._patch_path()
        if self._is_written(path, text.encode()):
            self._record.set_part("patch", path=from_here(path))
        return self._copies

    def _command(self) -> str:
        """The command that runs the script with its own switches for what is left to them; "" without any."""
        given = [word for change in self._search.recipe for word in change.arguments]
        words = [word for word in given if not IN_FILE.fullmatch(word)]
        request = self._request
        start = ["python", *(["-m"] if request.module else []), request.program, *request.arguments]
        return shlex.join([*start, *words]) if words else ""

    def write_recipe(self) -> None:
        """Write the file for `laptime verify` and `laptime.apply` beside the patch."""
        patch, request, runner = self._patch_path(), self._request, self._evaluator.runner
        path = patch.with_name(patch.name.removesuffix(".patch").removesuffix(".laptime") + ".laptime.json")
        file = RecipeFile(
            program=request.program,
            arguments=request.arguments,
            module=request.module,
            sha256=runner.program.subject.sha256,
            recipe=list_applied(self._search.recipe),
            speedup=self._record.tuning.speedup,
            environment=environment_of(environment(runner.newest)),
            run=self._record.live.id,
            patched=self._record.tuning.patch.files,
        )
        if self._is_written(path, encode(file)):
            self._record.set(recipe_path=from_here(path))

    def _is_written(self, path: Path, content: bytes) -> bool:
        """Write a file; if that fails, the record says so."""
        try:
            write_whole(path, content)
        except OSError as error:
            sentence = f"it could not be written: {error.strerror or error}; --patch another/FILE.patch"
            self._record.set_part("patch", sentence=sentence)
            return False
        return True

    def edit(self) -> tuple[Sources, list[str], dict[str, str]]:
        """The edited sources, names of the changes that they hold, and of the others with the reason."""
        loop_profile = self._search.before
        sources = Sources(loop_profile.sites, main_file(self._evaluator), loop_profile.device)
        hunks, left_out = [], {}
        kept = {(rung.name, str(rung.options)): rung for rung in self._search.ladder if rung.kept}
        for mend, names in self._evaluator.mends.items():
            for name in sorted(names & set(self._search.recipe.names))[:1]:
                sources.mend(mend, name)
        for change in self._search.recipe:
            try:
                if change.arguments:
                    set_here = switches.set_in(sources, change)
                    hunks += [change.name] * set_here
                    continue
                sources.apply(change, _comment(str(change), kept.get((change.name, str(change.options)))))
                hunks.append(change.name)
            except CannotEdit as error:
                left_out[change.name] = str(error)
        return sources, hunks, left_out

    def _patch_path(self) -> Path:
        """Where the patch goes: as requested, beside the script, or here where that cannot be written."""
        if self._request.patch is not None:
            return Path(self._request.patch)
        main = main_file(self._evaluator)
        script = Path(main) if main else Path(self._request.program.rpartition(".")[2])
        home = script.parent if os.access(script.parent, os.W_OK) else Path()
        return home / f"{script.stem}.laptime.patch"

    def is_withdrawn(self) -> bool:
        """Take the patch back if it is slower, or not the raced set and not shown to be faster."""
        patch, measured = self._record.tuning.patch, self._record.tuning.speedup
        word = measured.word if measured else "unclear"
        if word == "faster" or (word != "slower" and not patch.left_out and not patch.contradictions):
            return False
        if patch.path:
            self._patch_path().unlink(missing_ok=True)
        why = f" without {', '.join(patch.left_out)}" if patch.left_out else ""
        sentence = f"no patch is handed back: what it would hold{why} was not shown to be faster by itself"
        self._record.set_part(
            "patch", path="", text="", command="", hunks=[], sentence=sentence, speedup=measured
        )
        return True

    def verify(self, pairs: list[TrialPair], alone: Callable[[Recipe], TimedTrial] | None) -> None:
        """Does the patched script do what the recipe does, and train as with it? pairs: of the script and the
        patched script. alone: runs a recipe as in the last of them; None: there is no time for it."""
        same, contradictions = None, list[str]()
        try:
            if alone:
                recipe = alone(self._search.recipe)
                same, contradictions = same_losses(pairs[-1], recipe), find_missing(pairs[-1], recipe)
        except TrialFailed as failed:
            if failed.kind != "budget":
                sentence = f"the recipe does not run beside the patched script: {failed.why}"
                self._record.set_part("patch", sentence=sentence)
                return
        measured = self._record.tuning.speedup
        # A patch that could not be written matters more than what it would have done.
        sentence = self._record.tuning.patch.sentence or _sentence(measured, same)
        self._record.set_part(
            "patch", speedup=measured, same_losses=same, sentence=sentence, contradictions=contradictions
        )


def _comment(label: str, rung: Rung | None) -> str:
    if rung is None or rung.speedup is None or rung.ci95 is None:
        return label
    low, high = rung.ci95
    return f"{label}, {rung.speedup:.2f}x [{low:.2f}, {high:.2f}]"


def _sentence(gain: Speedup | None, same: bool | None) -> str:
    if gain is None:
        return UNTIMED
    low, high = gain.ci95
    words = f"the patched script itself, without hooks: {gain.value:.2f}x [{low:.2f}, {high:.2f}]"
    if same is not None:
        words += ", with the losses of the recipe" if same else ", but with other losses than the recipe's"
    return words


# What is only suggested


RUN = "suggested, not applied: it was run and has the losses of the script; see the diff"


def suggestions(
    evaluator: TrialEvaluator, loop_profile: LoopProfile, *, end: float = math.inf
) -> tuple[list[Rung], str]:
    """Return what can be suggested and what cannot, as rungs, and the diff. end: second of the session after
    which nothing is run, and so nothing suggested."""
    rungs: list[Rung] = []
    shown: list[Change] = []
    diff = ""
    for change in suggest(loop_profile, evaluator.choice):
        why, text = _try_edits(evaluator, loop_profile, [*shown, change], end)
        found = {"verdict": "suggested", "reason": RUN, "suggestion": text}
        if why:
            found = {"reason": f"nothing to suggest: {why}"}
        else:
            shown, diff = [*shown, change], text
        rungs.append(structs.replace(_rung(change, loop_profile), **found))
    return rungs, diff


def plan(evaluator: TrialEvaluator, loop_profile: LoopProfile) -> list[Rung]:
    """Return what would be run and then suggested, as rungs of a dry run."""
    reason = "would be run, and shown as a diff if the losses stay the same"
    rungs = (_rung(change, loop_profile) for change in suggest(loop_profile, evaluator.choice))
    return [structs.replace(rung, verdict="suggested", reason=reason) for rung in rungs]


def _rung(change: Change, loop_profile: LoopProfile) -> Rung:
    own = optimization.load(change.name)
    bound = own.bound(loop_profile, change.options)
    return make_rung(Candidate(change, own.title, own.numerics, bound))


def _try_edits(
    evaluator: TrialEvaluator, loop_profile: LoopProfile, changes: list[Change], end: float
) -> tuple[str, str]:
    """Return why these changes of the source cannot be shown, "" if they can; and their diff."""
    runner = evaluator.runner
    sources = Sources(loop_profile.sites + loop_profile.syncs, main_file(evaluator), loop_profile.device)
    try:
        for change in changes:
            sources.apply(change, f"suggested, {optimization.load(change.name).title}")
        diff = sources.diff()
        copies = sources.patch_copies(runner.folder / f"suggested-{len(changes)}-{changes[-1].name}")
    except (CannotEdit, DoesNotApply) as error:
        return str(error), ""
    seconds = 2 * cost(runner.accounting.first_step or START, loop_profile.step)
    if runner.elapsed() + seconds > end:
        return "no time was left to run it", ""
    try:
        with runner.accounting.spent_on("patch"):
            pair = runner.pair(Recipe(), Recipe(), 0, sources=copies, rounds=fewest_rounds(runner.step))
    except TrialFailed as failed:
        return f"with it the script does not run: {failed.why}", ""
    if same_losses(pair, pair.baseline) is False:
        return "with it the script has other losses", ""
    return "", diff
