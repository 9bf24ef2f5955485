"""`with laptime.apply(recipe): main()`: the changes of a recipe without a patch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from laptime.kit.errors import UsageError
from laptime.records.run import Run
from laptime.tuning import optimization, recipe_file
from laptime.tuning.optimization import Recipe
from laptime.tuning.trial.applied import AppliedChanges


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
