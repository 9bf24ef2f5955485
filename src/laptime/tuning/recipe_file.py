"""The recipe file, `train.laptime.json`: the kept changes, their script, and the gain there.

Rules as for runs: new fields have defaults, unknown ones are ignored."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from laptime.kit.errors import UsageError
from laptime.records.environment import Environment
from laptime.records.run import Run
from laptime.records.tuning import Applied, Speedup, Tuning
from laptime.store.folder import write_whole
from laptime.tuning.optimization import Change, Recipe

SCHEMA = "laptime.recipe/1"


class RecipeFile(Struct, frozen=True, kw_only=True):
    """A recipe and its origin."""

    schema: str = SCHEMA
    # program, arguments, module: the command that was tuned
    program: str = ""
    arguments: list[str] = []
    module: bool = False
    sha256: str = ""  # of the script then
    recipe: list[Applied] = []  # the kept changes
    speedup: Speedup | None = None  # measured again; None if the file was written by hand
    environment: dict[str, Any] = {}  # libraries and devices then
    run: str = ""  # id of the session
    patched: dict[str, str] = {}  # sha256 of each file as the patch leaves it, by path

    def refuse_applied(self) -> None:
        """Raises UsageError: a file is as the patch left it, so that both sides would be the same."""
        if done := [path for path, digest in self.patched.items() if digest == sha256_of(Path(path))]:
            raise UsageError(
                f"the patch has been applied to {done[0]}",
                why="verify compares the script without and with the recipe, which are the same now",
                next="take it back with git apply -R, verify, and apply it again",
            )


def sha256_of(path: Path) -> str:
    """The digest of a file's bytes; "" where there is none."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


def environment_of(environment: Environment) -> dict[str, Any]:
    """Versions and devices, which `verify` compares."""
    return {
        "libraries": environment.libraries,
        "devices": [device.model or device.name for device in environment.devices],
        "cpu": environment.cpu,
        "cpus": environment.usable_cpus,
    }


def write_here(run: Run, command: dict[str, Any]) -> None:
    """Write the patch and the recipe file of a session on another machine, where they lie there below the
    user's folder. command: program, arguments and module as they were typed. Raises OSError: they cannot be
    written."""
    tuning = run.tuning or Tuning()
    if tuning.patch.path:
        write_whole(_place(tuning.patch.path), tuning.patch.text.encode())
    if tuning.recipe_path:
        file = RecipeFile(
            **command,
            sha256=run.subjects[0].sha256,
            recipe=tuning.recipe,
            speedup=tuning.speedup,
            environment=environment_of(run.environment),
            run=run.id,
            patched=tuning.patch.files,
        )
        write_whole(_place(tuning.recipe_path), encode(file))


def _place(path: str) -> Path:
    return Path(Path(path).name if Path(path).is_absolute() else path)


def encode(file: RecipeFile) -> bytes:
    """The file's bytes."""
    return msgspec.json.format(msgspec.json.encode(file), indent=2) + b"\n"


def read(path: Path) -> RecipeFile:
    """A recipe file. Raises UsageError: it is not there, or is none."""
    wanted = "name the .laptime.json file that laptime tune wrote beside its patch"
    try:
        file = msgspec.json.decode(path.read_bytes(), type=RecipeFile)
    except OSError as error:
        why = error.strerror or str(error)
        raise UsageError(f"the recipe {path} cannot be read", why=why, next=wanted) from error
    except msgspec.MsgspecError as error:
        raise UsageError(f"{path} is not a recipe", why=str(error), next=wanted) from error
    if not file.schema.startswith("laptime.recipe/"):
        why = f"its schema is {file.schema!r}, not {SCHEMA!r}"
        raise UsageError(f"{path} is not a recipe", why=why, next=wanted)
    return file


def list_applied(recipe: Recipe) -> list[Applied]:
    """A recipe as it stands in records."""
    return [Applied(name=change.name, options=change.options) for change in recipe]


class HasRecipe(Protocol):
    """A session's record, or a file of it."""

    @property
    def recipe(self) -> Sequence[Applied]:
        """Its changes."""


def recipe_of(record: HasRecipe) -> Recipe:
    """The recipe that a session has kept, or that a file has."""
    return Recipe(tuple(Change(change.name, change.options) for change in record.recipe))
