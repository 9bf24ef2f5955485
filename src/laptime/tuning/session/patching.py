"""The recipe as an edit of the user's source: written, checked, run, timed."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import structs

from laptime.records.tuning import Patched, Rung
from laptime.store.folder import write_whole
from laptime.tuning import optimization
from laptime.tuning.candidates import suggested
from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.optimization import CannotEdit, Recipe
from laptime.tuning.patch import verify as checking
from laptime.tuning.patch.source import Sources
from laptime.tuning.recipe_file import RecipeFile, applied, encoded, environment_of
from laptime.tuning.search.evaluator import TrialFailed
from laptime.tuning.search.ladder import SearchResult
from laptime.tuning.session import final_ab, tuning_record
from laptime.tuning.session.trial_runner import Pair, TrialRunner

PAIRS = 2
"""Of the patched script against the user's: its gain was measured already, this tells whether it has it."""


def main_file(runner: TrialRunner) -> str:
    """The script's main file. Behind a command such as torchrun, and for a module, the file that has the
    loop."""
    source = runner.program.subject.source
    if source.endswith(".py") and Path(source).is_file():
        return str(Path(source).resolve())
    sites = runner.loop_profile.sites if runner.loop_profile else ()
    kinds = ("fetch", "step", "backward", "forward", "optimizer")
    return next((site.file for kind in kinds for site in sites if site.kind == kind), "")


def suggestions(runner: TrialRunner, loop_profile: LoopProfile) -> tuple[list[Rung], str]:
    """Changes that are never made on their own, as rungs and as one diff."""
    rungs, diff = [], ""
    sources = Sources(loop_profile.sites + loop_profile.syncs, main_file(runner), loop_profile.device)
    for change in suggested(loop_profile, runner.choice):
        module = optimization.load(change.name)
        try:
            sources.apply(change, f"suggested, {module.TITLE}")
            diff = sources.diff()
            why = "suggested, not applied: see the diff"
        except CannotEdit as error:
            why = f"suggested, not applied; {error}"
        rungs.append(
            Rung(
                name=change.name,
                label=str(change),
                title=module.TITLE,
                options=change.options,
                numerics=module.NUMERICS,
                verdict="suggested",
                bound=module.bound(loop_profile, change.options),
                reason=why,
                suggestion=diff,
            )
        )
    return rungs, diff


def write(request: Any, runner: TrialRunner, found: SearchResult, finished: Any) -> dict[str, str]:
    """The patch, beside the script or where it was asked for.

    Returns:
        Copies of the edited files, by the path that each stands in for; none when nothing could be edited.
    """
    sources, hunks, left_out = _edited(runner, found.before, found.recipe, finished, found.ladder)
    text = sources.diff()
    finished.patch = structs.replace(finished.patch, text=text, hunks=hunks, left_out=left_out)
    if not text:
        return {}
    path = _path(request, runner, ".laptime.patch")
    applies = checking.applies(text, sources.root)
    finished.patch = structs.replace(finished.patch, applies=applies)
    try:
        write_whole(path, text.encode())
        finished.patch = structs.replace(finished.patch, path=_short(path))
    except OSError as error:
        finished.patch = structs.replace(finished.patch, sentence=_unwritten(error))
    # What runs is the very diff that is handed over; one that does not apply cannot.
    with suppress(checking.DoesNotApply):
        return checking.patched(text, sources.root, runner.folder / "patched")
    return {}


def _unwritten(error: OSError) -> str:
    return f"it could not be written: {error.strerror or error}; --patch another/FILE.patch"


def write_recipe(request: Any, runner: TrialRunner, recipe: Recipe, finished: Any) -> None:
    """The file that `laptime verify` and `laptime.apply` read, beside the patch."""
    patch = _path(request, runner, ".laptime.patch")
    name = patch.name.removesuffix(".patch").removesuffix(".laptime") + ".laptime.json"
    try:
        write_whole(patch.with_name(name), encoded(recipe_file(request, runner, recipe, finished)))
        finished.recipe_path = _short(patch.with_name(name))
    except OSError as error:
        finished.patch = structs.replace(finished.patch, sentence=_unwritten(error))


def recipe_file(request: Any, runner: TrialRunner, recipe: Recipe, finished: Any) -> RecipeFile:
    """What `laptime verify` and `laptime.apply` read."""
    return RecipeFile(
        program=request.program,
        arguments=request.arguments,
        module=request.module,
        sha256=runner.program.subject.sha256,
        recipe=applied(recipe),
        speedup=finished.speedup,
        environment=environment_of(tuning_record.environment(runner)),
        run=finished.run_id,
    )


def _edited(
    runner: TrialRunner, loop_profile: LoopProfile, recipe: Recipe, finished: Any, ladder: Iterable[Rung]
) -> tuple[Sources, list[str], dict[str, str]]:
    """Every change of the recipe as an edit, one after another; those that cannot be are left out."""
    sources = Sources(loop_profile.sites, main_file(runner), loop_profile.device)
    hunks, left_out = [], {}
    effects = {(rung.name, str(rung.options)): rung for rung in ladder if rung.kept}
    for change in recipe:
        try:
            sources.apply(change, _comment(str(change), effects.get((change.name, str(change.options)))))
            hunks.append(change.name)
        except CannotEdit as error:
            left_out[change.name] = str(error)
    return sources, hunks, left_out


def _comment(label: str, rung: Rung | None) -> str:
    if rung is None or rung.speedup is None or rung.ci95 is None:
        return label
    low, high = rung.ci95
    return f"{label}, {rung.speedup:.2f}x [{low:.2f}, {high:.2f}]"


def _path(request: Any, runner: TrialRunner, suffix: str) -> Path:
    """Where the patch goes: asked for, beside the script, or here when that folder is not ours to write."""
    if request.patch is not None:
        return Path(request.patch)
    main = main_file(runner)
    script = Path(main) if main else Path(request.program.rpartition(".")[2])
    home = script.parent if os.access(script.parent, os.W_OK) else Path()
    return home / f"{script.stem}{suffix}"


def _short(path: Path) -> str:
    with suppress(ValueError):
        return str(path.resolve().relative_to(Path.cwd()))
    return str(path)


def verify(
    request: Any,
    runner: TrialRunner,
    found: SearchResult,
    finished: Any,
    pairs: list[Pair],
    sources: dict[str, str],
    *,
    is_whole: bool,
) -> None:
    """The patched script runs without a recipe: does it have the gain, does it train as with the recipe?

    Args:
        pairs: what the gain was measured by; of the patched script itself where `is_whole`.
    """
    same: bool | None = None
    seen = pairs
    try:
        with runner.ledger.spent("patch"):
            if is_whole and pairs:
                same = final_ab.same_losses(pairs, [runner.side(found.recipe, 0, seconds=final_ab.LONG)])
            elif not is_whole:
                seen = []
                for so_far in final_ab.pairs(
                    runner,
                    Recipe(),
                    until=request.budget,
                    end=request.budget,
                    noise=found.noise,
                    sources=sources,
                    fewest=PAIRS,
                    most=PAIRS,
                ):
                    seen = so_far
    except TrialFailed as failed:
        sentence = f"the patched script does not run: {failed.why}"
        finished.patch = structs.replace(finished.patch, sentence=sentence, same_losses=False)
        return
    gain = final_ab.speedup(seen, found.noise)
    finished.patch = structs.replace(
        finished.patch,
        speedup=gain,
        same_losses=same,
        # That it could not be written is worth more than what it would have done.
        sentence=finished.patch.sentence or _sentence(finished.patch, gain, same),
    )


def _sentence(patch: Patched, gain: Any, same: bool | None) -> str:
    if gain is None:
        return "the patched script was not timed: it does not run, or the budget was spent"
    low, high = gain.ci95
    words = f"the patched script itself, without hooks of ours: {gain.value:.2f}x [{low:.2f}, {high:.2f}]"
    if same is not None:
        words += ", the losses of the recipe" if same else ", but other losses than the recipe's"
    return words
