"""`model.py:build`: a function in a file of the user's."""

from pathlib import Path
from typing import Any

from laptime.kit import registry
from laptime.kit.errors import LaptimeError, TargetError
from laptime.kit.text import closest
from laptime.targets import Recipe, _code, _shared, saved_model

FORM = "file.py:FUNCTION"
names = _shared.none_known


def matches(text: str) -> bool:
    """A path ends in `.py`, or has a slash in it and is of no other kind."""
    place = _split(text)[0]
    others = (kind for kind in registry.names("targets") if kind != "file")
    return place.endswith(".py") or (
        "/" in place and not any(registry.load("targets", kind).matches(text) for kind in others)
    )


def resolve(text: str) -> Recipe:
    """The recipe for a function in a file; the file is read, not run. A folder may be a SavedModel."""
    if saved_model.is_one(Path(text).expanduser()):
        return saved_model.resolve(text)
    place, name = _split(text)
    path = _existing(place, text).resolve()
    if not name:
        functions = [n for n in _code.names_in(path).functions if not n.startswith("_")]
        raise TargetError(
            f"{place} is a file; which function in it?",
            why=f"it defines {', '.join(functions[:8])}" if functions else "it defines no function",
            next=f"laptime bench {place}:{functions[0] if functions else 'FUNCTION'}",
        )
    _code.check_name(path, name, target=text)

    def load() -> Any:
        return _code.find(_code.import_file(path), name, target=text)

    digest = _code.sha256(path)
    return _code.recipe(text, load, kind="file", folder=path.parent, source=place, sha256=digest)


def function(text: str) -> Any:
    """The object itself, its file imported.
    Raises TargetError: there is none. UserCodeError: the file raised."""
    place, name = _split(text)
    return _code.find(_code.import_file(_existing(place, text).resolve()), name, target=text)


def wrap_error(text: str, error: BaseException) -> LaptimeError:
    """The error for an exception of the function, with the line of its file."""
    return _code.user_error(
        error, f"{text} raised", folder=Path(_split(text)[0]).expanduser().resolve().parent
    )


def anywhere(text: str) -> str:
    """The same function named from any folder."""
    place, name = _split(text)
    return f"{Path(place).expanduser().resolve()}:{name}"


def _split(text: str) -> tuple[str, str]:
    place, colon, name = text.rpartition(":")
    return (place, name) if colon and "/" not in name else (text, "")


def _existing(place: str, text: str) -> Path:
    path = Path(place).expanduser()
    if path.is_file():
        return path
    if path.is_dir():
        raise TargetError(f"{place} is a folder", why="a target is a function in a file", next=f"name {FORM}")
    folder = path.parent
    if not folder.is_dir():
        raise TargetError(f"there is no file {place}", why=f"the folder {folder} does not exist")
    near = closest(path.name, [entry.name for entry in folder.glob("*.py")])
    right = str(folder / near) if near else ""
    raise TargetError(
        f"there is no file {place}",
        why=f"looked in {'the current folder' if str(folder) == '.' else folder}",
        next=f"did you mean {text.replace(place, right)}?" if near else f"name {FORM}",
    )
