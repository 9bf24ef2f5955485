"""The file of a recipe, `train.laptime.json`: what was kept, for which script, and what it gained there.

Format history (schema):
    laptime.recipe/1   first version

Rules as for runs: new fields have defaults, unknown ones are ignored.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from laptime.kit.errors import UsageError
from laptime.records.environment import Environment
from laptime.records.tuning import Applied, Speedup, Tuning
from laptime.tuning.optimization import Change, Recipe

SCHEMA = "laptime.recipe/1"


class RecipeFile(Struct, frozen=True, kw_only=True):
    """A recipe and where it comes from.

    Attributes:
        program, arguments, module: the command that it was found for.
        sha256: of the script then.
        recipe: what was kept. speedup: what it gained, measured afresh; None when it was written by hand.
        environment: libraries and devices then.
        run: id of the session.
    """

    schema: str = SCHEMA
    program: str = ""
    arguments: list[str] = []
    module: bool = False
    sha256: str = ""
    recipe: list[Applied] = []
    speedup: Speedup | None = None
    environment: dict[str, Any] = {}
    run: str = ""

    def changes(self) -> Recipe:
        """What is to be applied."""
        return Recipe(tuple(Change(own.name, own.options) for own in self.recipe))


def environment_of(environment: Environment) -> dict[str, Any]:
    """What a later check compares: versions and devices."""
    return {
        "libraries": environment.libraries,
        "devices": [device.model or device.name for device in environment.devices],
        "cpu": environment.cpu,
        "cpus": environment.usable_cpus,
    }


def encoded(file: RecipeFile) -> bytes:
    """The file's bytes."""
    return msgspec.json.format(msgspec.json.encode(file), indent=2) + b"\n"


def read(path: Path) -> RecipeFile:
    """A recipe file.

    Raises:
        UsageError: it is not there, or is none.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"the recipe {path} cannot be read",
            why=error.strerror or str(error),
            next="laptime tune SCRIPT.py   writes SCRIPT.laptime.json",
        ) from error
    try:
        found = msgspec.json.decode(data, type=RecipeFile)
    except msgspec.MsgspecError as error:
        raise UsageError(
            f"{path} is no recipe", why=str(error), next="laptime verify SCRIPT.laptime.json"
        ) from error
    if not found.schema.startswith("laptime.recipe/"):
        raise UsageError(f"{path} is no recipe", why=f"its schema is {found.schema!r}, not {SCHEMA!r}")
    return found


def applied(recipe: Recipe) -> list[Applied]:
    """A recipe as it stands in records."""
    return [Applied(name=change.name, options=change.options) for change in recipe]


def recipe_of(tuning: Tuning) -> Recipe:
    """What a session has kept."""
    return Recipe(tuple(Change(own.name, own.options) for own in tuning.recipe))
