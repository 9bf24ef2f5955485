"""Extensions by file name: one file is one extension, and its name is the word on the command line.

`names(room)` lists without importing; `load(room, name)` imports one file. Other packages join through entry
points in the group `laptime.<room>` (say `laptime.backends`). A broken extension raises when it is asked for
and is listed by `broken(room)`: it is never skipped in silence. A room may have a table of extensions a file
instead of one: `entries(room)`."""

import importlib
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from importlib.resources import files
from types import ModuleType
from typing import Any

from laptime.kit.errors import LaptimeError, unknown

ROOMS = {  # packages, one or several, by the word for what they hold
    "targets": "laptime.targets",
    "backends": "laptime.backends",
    "probes": "laptime.probes",
    "checks": "laptime.measure.checks",
    "rules": "laptime.rules",
    "optimizations": "laptime.tuning.catalogue",
    "model_changes": "laptime.tuning.inference.runtimes",
    "imports": "laptime.edges.imports",
    "reports": "laptime.reports.formats laptime.edges.formats",
    "exports": "laptime.edges.exports",
    "commands": "laptime.apps.cli.commands",
    "suite_commands": "laptime.apps.cli.suite_commands",
    "engines": "laptime.launch.fleet.engines",
}


@cache
def _own_modules(room: str) -> dict[str, str]:
    """Module by name of the extension."""
    modules = {}
    for package in ROOMS[room].split():
        for entry in files(package).iterdir():
            stem, dot, suffix = entry.name.partition(".")
            is_package = not dot and entry.is_dir() and entry.joinpath("__init__.py").is_file()
            if not stem.startswith("_") and (suffix == "py" or is_package):
                modules[stem] = f"{package}.{stem}"
    return modules


@cache
def _guests(room: str) -> dict[str, EntryPoint]:
    return {point.name.replace("-", "_"): point for point in entry_points(group=f"laptime.{room}")}


def names(room: str) -> tuple[str, ...]:
    """Sorted names of all extensions of a room, ours and those of other packages."""
    return tuple(sorted({*_own_modules(room), *_guests(room)}))


def load(room: str, name: str) -> ModuleType:
    """The module of one extension. `-` and `_` are the same in names.
    Raises UsageError: no extension has this name; the nearest right one is suggested. LaptimeError: the
    extension exists, but importing it failed."""
    stem = name.replace("-", "_")
    if stem not in names(room):
        raise unknown(_word(room), name, names(room))
    try:
        if stem in _own_modules(room):
            return importlib.import_module(_own_modules(room)[stem])
        module = _guests(room)[stem].load()
        if not isinstance(module, ModuleType):
            raise TypeError(f"the entry point names a {type(module).__name__}, not a module")
    except Exception as error:
        what, why = f"the {_word(room)} {name!r} is broken", f"{type(error).__name__}: {error}"
        raise LaptimeError(what, why=why, next="laptime doctor") from error
    return module


@cache
def entries(room: str) -> dict[str, Any]:
    """Extensions of a room whose files are tables, `CHANGES`: each by its `name`.
    Raises LaptimeError: a file cannot be imported, or has no table."""
    found: dict[str, Any] = {}
    for file in names(room):
        table = getattr(load(room, file), "CHANGES", None)
        if table is None:
            raise LaptimeError(
                f"the {_word(room)} {file!r} is broken",
                why="it has no CHANGES; a module for a single change is no longer supported",
                next=f"CHANGES = [...]   in {file}, a list of objects with a name",
            )
        found |= {each.name: each for each in table}
    return found


def broken(room: str) -> dict[str, str]:
    """Name and reason of every extension of a room that cannot be imported."""
    faults = {}
    for name in names(room):
        try:
            load(room, name)
        except LaptimeError as error:
            faults[name] = error.why
    return faults


def _word(room: str) -> str:
    """One of a room's extensions in a sentence: `backend`, `suite command`."""
    return room.removesuffix("s").replace("_", " ")
