"""`saved_model:FOLDER` or `FOLDER/`: a SavedModel of TensorFlow, run by its signature.

The signature is `serving_default`, else the only one there is. `saved_model:FOLDER#NAME` names another."""

import hashlib
from pathlib import Path
from typing import Any

from laptime.kit.errors import TargetError
from laptime.kit.text import closest
from laptime.targets import Program, Recipe, _shared

FORM = "saved_model:FOLDER"
names = _shared.none_known
_PREFIX = "saved_model:"
_GRAPH = "saved_model.pb"
_DEFAULT = "serving_default"


def matches(text: str) -> bool:
    """Anything behind `saved_model:`, and paths that end in a slash or in `saved_model.pb`."""
    return text.startswith(_PREFIX) or text.endswith(("/", f"/{_GRAPH}"))


def is_one(folder: Path) -> bool:
    try:
        return (folder / _GRAPH).is_file()
    except (OSError, ValueError):  # a name that no file can have
        return False


def resolve(text: str) -> Recipe:
    """The recipe of a SavedModel; its graph is hashed, not read."""
    place, _, signature = text.removeprefix(_PREFIX).partition("#")
    folder = Path(place.removesuffix(f"/{_GRAPH}") or ".").expanduser()
    if not is_one(folder):
        raise TargetError(
            f"{place or text!r} is not a SavedModel",
            why=f"there is no {_GRAPH} in it" if folder.is_dir() else "there is no such folder",
            next="model.export('FOLDER') or tf.saved_model.save(module, 'FOLDER') writes one",
        )
    folder = folder.resolve()
    return Recipe(
        target=text,
        kind="saved_model",
        build=lambda batch: _build(folder, signature, text),
        backend="tensorflow",
        source=place,
        sha256=hashlib.sha256((folder / _GRAPH).read_bytes()).hexdigest(),
    )


class Served:
    """A signature of a SavedModel, called by keyword. It holds the model, whose variables die with it."""

    def __init__(self, loaded: Any, name: str) -> None:
        self.loaded = loaded
        self.signature = loaded.signatures[name]

    def __call__(self, **inputs: Any) -> Any:
        return self.signature(**inputs)


def _build(folder: Path, signature: str, text: str) -> Program:
    import tensorflow as tf

    try:
        loaded = tf.saved_model.load(str(folder))
    except Exception as error:
        raise _shared.unloadable(text, error) from error
    name = _signature(list(loaded.signatures), signature, text)
    return Program(call=Served(loaded, name), facts={"signature": name})


def _signature(names: list[str], name: str, text: str) -> str:
    if not names:
        raise TargetError(
            f"{text} has no signature",
            why="it was saved without one, so nothing says what to call and with which inputs",
            next="tf.saved_model.save(module, folder, signatures=function.get_concrete_function(specs))",
        )
    if name and name not in names:
        why, next = f"it has {', '.join(names)}", f"did you mean #{closest(name, names) or names[0]}?"
        raise TargetError(f"{text.partition('#')[0]} has no signature {name!r}", why=why, next=next)
    if not name and _DEFAULT not in names and len(names) > 1:
        raise TargetError(
            f"which signature of {text}?", why=f"it has {', '.join(names)}", next=f"{text}#{names[0]}"
        )
    return name or (_DEFAULT if _DEFAULT in names else names[0])
