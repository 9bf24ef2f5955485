"""The recipe as an edit of the user's source: written, checked, run, timed."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from laptime.kit.text import from_here
from laptime.records.tuning import Rung, Speedup
from laptime.store.folder import write_whole
from laptime.tuning.optimization import CannotEdit, Recipe
from laptime.tuning.patch import diff as patch_check
from laptime.tuning.patch.sources import Sources
from laptime.tuning.recipe_file import RecipeFile, applied, encoded, environment_of
from laptime.tuning.script.request import TuneRequest
from laptime.tuning.script.sides import same_losses, timed_seconds, visited
from laptime.tuning.script.trial_evaluator import TrialEvaluator
from laptime.tuning.script.trial_runner import TrialPair
from laptime.tuning.search.evaluator import TrialFailed
from laptime.tuning.search.ladder import SearchResult
from laptime.tuning.session.afresh import LEAST, gain, ratios
from laptime.tuning.session.record import Record
from laptime.verbs.profile.run import environment

UNTIMED = "the patched script was not timed: it does not run, or the budget was spent"


def main_file(evaluator: TrialEvaluator) -> str:
    """The script's main file. Behind a command such as torchrun, and for a module, the file with the loop."""
    source = evaluator.runner.program.subject.source
    if source.endswith(".py") and Path(source).is_file():
        return str(Path(source).resolve())
    sites = evaluator.loop_profile.sites if evaluator.loop_profile else ()
    kinds = ("fetch", "step", "backward", "forward", "optimizer")
    return next((site.file for kind in kinds for site in sites if site.kind == kind), "")


class PatchWriter:
    """The patch and the recipe file of one session: written, checked, run, timed."""

    def __init__(
        self, request: TuneRequest, evaluator: TrialEvaluator, search: SearchResult, record: Record
    ) -> None:
        """`record` takes what comes of it."""
        self._request, self._evaluator, self._search, self._record = request, evaluator, search, record

    def write(self) -> dict[str, str]:
        """Write the patch beside the script, or where the request says.

        Returns:
            Copies of the edited files, by the path that each stands in for; none when nothing was edited.
        """
        sources, hunks, left_out = self._edited()
        text = sources.diff()
        self._record.set_part("patch", text=text, hunks=hunks, left_out=left_out)
        if not text:
            return {}
        self._record.set_part("patch", applies=patch_check.applies(text, sources.root))
        path = self._patch_path()
        if self._is_written(path, text.encode()):
            self._record.set_part("patch", path=from_here(path))
        # What runs is the very diff that the user gets; one that does not apply cannot run.
        with suppress(patch_check.DoesNotApply):
            return patch_check.patched(text, sources.root, self._evaluator.runner.folder / "patched")
        return {}

    def write_recipe(self) -> None:
        """Write the file for `laptime verify` and `laptime.apply` beside the patch."""
        patch, request, runner = self._patch_path(), self._request, self._evaluator.runner
        path = patch.with_name(patch.name.removesuffix(".patch").removesuffix(".laptime") + ".laptime.json")
        file = RecipeFile(
            program=request.program,
            arguments=request.arguments,
            module=request.module,
            sha256=runner.program.subject.sha256,
            recipe=applied(self._search.recipe),
            speedup=self._record.tuning.speedup,
            environment=environment_of(environment(runner.newest)),
            run=self._record.live.id,
        )
        if self._is_written(path, encoded(file)):
            self._record.set(recipe_path=from_here(path))

    def _is_written(self, path: Path, content: bytes) -> bool:
        """Write a file; where that fails, the record says so."""
        try:
            write_whole(path, content)
        except OSError as error:
            sentence = f"it could not be written: {error.strerror or error}; --patch another/FILE.patch"
            self._record.set_part("patch", sentence=sentence)
            return False
        return True

    def _edited(self) -> tuple[Sources, list[str], dict[str, str]]:
        """The edited sources, names of the changes in them, and of those that are not, with the reason."""
        loop_profile = self._search.before
        sources = Sources(loop_profile.sites, main_file(self._evaluator), loop_profile.device)
        hunks, left_out = [], {}
        kept = {(rung.name, str(rung.options)): rung for rung in self._search.ladder if rung.kept}
        for change in self._search.recipe:
            try:
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

    def verify(
        self, pairs: list[TrialPair], sources: dict[str, str], *, is_whole: bool, is_time: bool = True
    ) -> None:
        """Run the patched script without a recipe: does it have the gain, does it train as with the recipe?

        Args:
            pairs: by which the gain was measured; of the patched script itself if `is_whole`.
            is_time: something may still be run; without, the pairs are all that there is.
        """
        same: bool | None = None
        runner, search = self._evaluator.runner, self._search
        seconds = timed_seconds(self._request.budget)
        try:
            with runner.accounting.spent_on("patch"):
                if is_whole and pairs and is_time:
                    recipe = runner.timed(search.recipe, 0, seconds=seconds)
                    same = same_losses(pairs, [recipe])
                elif not is_whole:
                    pairs = []
                if not is_whole and is_time:
                    as_it_is = Recipe()
                    pairs = [
                        runner.pair(as_it_is, as_it_is, seed, sources=sources, seconds=seconds)
                        for seed in range(LEAST)
                    ]
        except TrialFailed as failed:
            if failed.kind == "budget":
                self._record.set_part("patch", sentence=UNTIMED)
                return
            sentence = f"the patched script does not run: {failed.why}"
            self._record.set_part("patch", sentence=sentence, same_losses=False)
            return
        measured = gain(ratios([(visited(each.baseline), visited(each.final)) for each in pairs]))
        # A patch that could not be written matters more than what it would have done.
        sentence = self._record.tuning.patch.sentence or _sentence(measured, same)
        self._record.set_part("patch", speedup=measured, same_losses=same, sentence=sentence)


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
