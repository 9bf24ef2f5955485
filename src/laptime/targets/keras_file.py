"""`model.keras`: a model that Keras has saved. Python code in the file is refused (`safe_mode`)."""

from __future__ import annotations

from pathlib import Path

from laptime.kit.errors import TargetError, UserCodeError
from laptime.kit.text import closest
from laptime.targets import Program, Recipe, _code

FORM = "FILE.keras"


def matches(text: str) -> bool:
    """A path that ends in `.keras`."""
    return text.endswith(".keras")


def resolve(text: str) -> Recipe:
    """The recipe of a saved model; the file is hashed, not read."""
    path = Path(text).expanduser()
    if not path.is_file():
        near = closest(path.name, [entry.name for entry in path.parent.glob("*.keras")])
        raise TargetError(
            f"there is no file {text}",
            why=f"looked in {path.parent.resolve()}",
            next=f"did you mean {path.parent / near}?" if near else "model.save('model.keras') writes one",
        )
    return Recipe(
        target=text,
        kind="keras_file",
        build=lambda batch: _build(path.resolve(), text),
        backend="tensorflow",
        source=text,
        sha256=_code.sha256(path),
        packages=("keras",),
    )


def names() -> list[str]:
    """None: files are the user's."""
    return []


def _build(path: Path, text: str) -> Program:
    import keras

    try:
        model = keras.models.load_model(path, compile=False)
    except Exception as error:
        raise UserCodeError(
            f"{text} cannot be loaded",
            why=f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}",
            next="for own layers and lambdas: load it in a function of file.py, and name that",
        ) from error
    return Program(call=model, facts={"weights": "from the file"})
