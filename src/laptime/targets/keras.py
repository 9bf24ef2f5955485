"""`keras:NAME`: every model of keras.applications, with random weights and inputs of its default size.

Nothing is downloaded (`weights=None`). The shapes are those of the constructor's defaults: 224 for
EfficientNetB0, 600 for B7, 299 for Inception; MobileNetV3 leaves its size open and gets 224."""

from __future__ import annotations

import importlib.util
import re
from typing import Any

from laptime.kit.errors import TargetError
from laptime.targets import Program, Recipe, _shared, unknown_name

FORM = "keras:NAME"
_NAME = re.compile(r"[A-Za-z0-9_\-]+")
_OPEN_SIZE = 224


def matches(text: str) -> bool:
    return text.startswith("keras:")


def resolve(text: str) -> Recipe:
    """The recipe of a model. That Keras is there and knows the name is seen when it is built.

    It may be installed for another interpreter than this one, which only plans."""
    name = text.partition(":")[2]
    if not _NAME.fullmatch(name):
        what, why = f"{text!r} is not the name of a Keras model", "a name has letters, digits, '_' and '-'"
        raise TargetError(what, why=why, next="for example: laptime bench keras:EfficientNetB0")
    return Recipe(
        target=text,
        kind="keras",
        build=lambda batch: _build(name),
        backend="tensorflow",
        source=_shared.source("keras"),
        packages=("keras",),
    )


def names() -> list[str]:
    """All models of the installed keras.applications; none without TensorFlow."""
    if not (importlib.util.find_spec("tensorflow") and importlib.util.find_spec("keras")):
        return []
    return [f"keras:{name}" for name in sorted(_constructors())]


def _constructors() -> dict[str, Any]:
    from keras import applications

    return {
        name: value for name, value in vars(applications).items() if name[:1].isupper() and callable(value)
    }


def _build(name: str) -> Program:
    constructors = _constructors()
    plain = {known.lower(): known for known in constructors}
    right = plain.get(name.lower().replace("_", "").replace("-", ""))
    if right is None:
        raise unknown_name("keras", name, sorted(constructors))
    model = constructors[right](weights=None)
    if None in model.input_shape[1:]:
        model = constructors[right](weights=None, input_shape=(_OPEN_SIZE, _OPEN_SIZE, 3))
    facts = {
        "family": "classification",
        "size": list(model.input_shape[1:]),
        "weights": "random, untrained",
    }
    return Program(call=model, untrained=True, facts=facts)
