"""`package.module:build`: a function in an importable module."""

import importlib
import re
import sys
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any

from laptime.kit import registry
from laptime.kit.errors import TargetError
from laptime.targets import Recipe, _code, _shared, misspelt_prefix

FORM = "pkg.mod:FUNCTION"
names = _shared.none_known
_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


def matches(text: str) -> bool:
    """Two dotted names around a colon; the first is no kind of target."""
    place, colon, name = text.partition(":")
    is_name = bool(colon and _DOTTED.fullmatch(place) and _DOTTED.fullmatch(name))
    return is_name and not place.endswith(".py") and place not in registry.names("targets")


def resolve(text: str) -> Recipe:
    """The recipe for a function in a module; the module is found, not imported."""
    place, _, name = text.partition(":")
    here = str(Path.cwd())
    own = [] if {here, ""} & {*sys.path} else [here]  # what lies there is found, as with `python -m`
    spec = _find(place, [*own, *sys.path])
    if spec is None:
        raise misspelt_prefix(text) or TargetError(
            f"there is no module {place!r}",
            why="it is neither in the current folder nor installed",
            next="start in the folder that holds it, or set PYTHONPATH",
        )
    path = Path(spec.origin) if spec.has_location and spec.origin else None
    source = path if path is not None and path.suffix == ".py" else None
    if source is not None:
        _code.check_name(source, name, target=text)
    folder = path.parent if path else Path()

    def load() -> Any:
        sys.path[:0] = own
        try:
            module = importlib.import_module(place)
        except (Exception, SystemExit) as error:
            raise _code.user_error(error, f"{place} raised while it was imported", folder=folder) from error
        return _code.find(module, name, target=text)

    digest = _code.sha256(source) if source is not None else ""
    return _code.recipe(text, load, kind="module", folder=folder, source=place, sha256=digest)


def _find(dotted: str, path: list[str]) -> ModuleSpec | None:
    """The spec of a module without importing its parents (`importlib.util.find_spec` would)."""
    parts = dotted.split(".")
    if len(parts) == 1 and parts[0] in sys.builtin_module_names:
        return importlib.util.find_spec(parts[0])
    spec = None
    for end in range(1, len(parts) + 1):
        spec = PathFinder.find_spec(".".join(parts[:end]), path)
        if spec is None or (end < len(parts) and spec.submodule_search_locations is None):
            return None
        path = list(spec.submodule_search_locations or [])
    return spec
