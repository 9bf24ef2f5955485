"""`with laptime.apply(recipe): main()`: the changes of a recipe without a patch."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from laptime.instrument.importing import WhenImported
from laptime.kit.errors import UsageError
from laptime.records.run import Run
from laptime.tuning import optimization, recipe_file
from laptime.tuning.optimization import Recipe
from laptime.tuning.trial.hooks.loop_hooks import LoopHooks
from laptime.tuning.trial.messages import TrialPlan
from laptime.tuning.trial.state_snapshot import optimizers

_CONSTRUCTIONS = {
    "loader": "DataLoader",
    "worker": "DataLoader",
    "dataset": "DataLoader",
    "optimizer": "optimizer",
}
"""Callbacks of a Loop that are only called when something is constructed, and what."""


@contextmanager
def apply(recipe: Run | Recipe | Path | str | list[dict[str, Any]]) -> Iterator[AppliedChanges]:
    """Apply a recipe to the loaders, optimizers and models that the block makes and uses.

        with laptime.apply("train.laptime.json") as applied:
            main()
        print(applied.refused)

    Args:
        recipe: a file that `laptime tune` has left, the run of a session, or changes as
            `[{"name": "channels_last"}, {"name": "num_workers", "options": {"value": 2}}]`.

    Models and optimizers from before the block are changed, too, and restored at its end. A DataLoader is
    changed where it is made: one from before stays as it is, and `refused` says so.

    Yields:
        The applied changes: `refused` names those that this loop could not take, with the reason, `left`
        those that could not be undone.

    Raises:
        UsageError: it is no recipe, or it has an unknown optimization.
    """
    changes = changes_of(recipe)
    for name in changes.names:
        optimization.load(name)
    applied = AppliedChanges(changes.to_json())
    applied.open()
    try:
        yield applied
    finally:
        applied.close()


def changes_of(recipe: Any) -> Recipe:
    """A recipe from any of its forms.

    Raises:
        UsageError: it is none.
    """
    if isinstance(recipe, Recipe):
        return recipe
    if isinstance(recipe, Run):
        if recipe.tuning is None:
            raise UsageError(f"run {recipe.id} has no recipe", why=f"it is one of laptime {recipe.verb}")
        return recipe_file.recipe_of(recipe.tuning)
    if isinstance(recipe, str | Path):
        return recipe_file.recipe_of(recipe_file.read(Path(recipe)))
    try:
        return Recipe.from_json(recipe)
    except (KeyError, TypeError, AttributeError) as error:
        raise UsageError(
            "this is no recipe",
            why=f"{type(error).__name__}: {error}",
            next='laptime.apply([{"name": "channels_last"}])',
        ) from error


class AppliedChanges:
    """Changes that are on from `open` to `close`: nothing is timed, nothing is stopped.

    Attributes:
        refused: changes that this loop could not take: {"name", "why"}. Those that wait for a construction
            that did not happen inside the block are added by `close`.
        left: what could not be given back at the end; empty when all is well.
    """

    def __init__(self, changes: list[dict[str, Any]]) -> None:
        self._hooks = LoopHooks(TrialPlan(folder="", base=changes))
        self._import_hook = WhenImported("torch", self._hooks.install)
        self.refused = self._hooks.refused
        self.left = self._hooks.result.left

    def open(self) -> None:
        """Apply now, or as soon as torch is imported."""
        existing = optimizers()
        self._import_hook.install()
        self._hooks.adopt(existing)

    def close(self) -> None:
        """Give everything back."""
        self._import_hook.remove()
        if "torch" in sys.modules:
            self._refuse_unmet()
        self._hooks.undo()

    def _refuse_unmet(self) -> None:
        """A loader that existed before was not rewritten: the change has done nothing."""
        kinds = {"DataLoader" if call.kind == "DataLoader" else "optimizer" for call in self._hooks.calls}
        for loop in list(self._hooks.changes.changes):
            waiting = {name for kind, name in _CONSTRUCTIONS.items() if loop.callbacks[kind]}
            if waiting - kinds:
                what = " and no ".join(sorted(waiting - kinds))
                self._hooks.changes.refuse(loop, f"no {what} was made inside the block")
