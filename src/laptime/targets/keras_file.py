"""`model.keras`: a model that Keras has saved. Python code in the file is refused (`safe_mode`)."""

from dataclasses import replace

from laptime.targets import Program, Recipe, _shared

FORM = "FILE.keras"
names = _shared.none_known


def matches(text: str) -> bool:
    return text.endswith(".keras")


def resolve(text: str) -> Recipe:
    """The recipe of a saved model; the file is hashed, not read."""
    recipe = _shared.resolve_file(text, kind="keras_file", backend="tensorflow")
    return replace(recipe, build=lambda batch: _build(recipe.file, text), file="", packages=("keras",))


def _build(path: str, text: str) -> Program:
    import keras

    try:
        model = keras.models.load_model(path, compile=False)
    except Exception as error:
        advice = "for own layers and lambdas: load it in a function of file.py, and name that"
        raise _shared.unloadable(text, error, advice) from error
    return Program(call=model, facts={"weights": "from the file"})
