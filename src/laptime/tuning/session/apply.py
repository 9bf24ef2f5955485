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
    """Inside the block loaders, optimizers and models are made and called as the recipe says.

        with laptime.apply("train.laptime.json") as applied:
            main()
        print(applied.refused)

    Args:
        recipe: a file that `laptime tune` has left, the run of a session, or changes as
            `[{"name": "channels_last"}, {"name": "num_workers", "options": {"value": 2}}]`.

    Models and optimizers that were there before are changed, too, and given back at the end. A DataLoader is
    changed where it is made: one from before stays as it is, and `refused` says so.

    Yields:
        What is applied: `refused` names the changes that this loop could not take, with the reason; `left`
        what could not be given back.

    Raises:
        UsageError: it is no recipe, or an optimization in it is not known.
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
    """The recipe in any of its forms.

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
        return recipe_file.read(Path(recipe)).changes()
    try:
        return Recipe.from_json(recipe)
    except (KeyError, TypeError, AttributeError) as error:
        raise UsageError(
            "this is no recipe",
            why=f"{type(error).__name__}: {error}",
            next='laptime.apply([{"name": "channels_last"}])',
        ) from error
