"""`keras:NAME`: every model of keras.applications, with random weights and inputs of its default size.

Nothing is downloaded (`weights=None`). The shapes are those of the constructor's defaults: 224 for
EfficientNetB0, 600 for B7, 299 for Inception; MobileNetV3 leaves its size open and gets 224."""

import importlib.util
from dataclasses import replace
from typing import Any

from laptime.targets import Program, Recipe, _shared, unknown_name

FORM = "keras:NAME"
_OPEN_SIZE = 224


def matches(text: str) -> bool:
    return text.startswith("keras:")


def resolve(text: str) -> Recipe:
    """The recipe of a model. That Keras is there and knows the name is seen when it is built.

    It may be installed for another interpreter than this one, which only plans."""
    recipe = _shared.resolve_name("keras", text, _build, example="EfficientNetB0")
    return replace(recipe, backend="tensorflow", packages=("keras",))


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
