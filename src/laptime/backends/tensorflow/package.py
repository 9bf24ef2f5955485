"""TensorFlow as a package: what it can be asked, its version, and how it is imported."""

from __future__ import annotations

from importlib import import_module

from laptime.backends._installed import versions
from laptime.kit.errors import Unavailable

TARGETS = ("keras", "keras_file", "saved_model", "file", "module")
"""Kinds of targets that it can run."""

OPTIONS = {
    "mode": "function (a tf.function; so Keras models run when nothing is said), xla, eager, or predict "
    "(model.predict, Keras's own loop)",
    "inter_threads": "operators that may run at once; --threads is for the threads inside one",
}
_WHEELS = ("tensorflow", "tensorflow-cpu", "tensorflow-rocm", "tensorflow-macos", "tf-nightly")


def available() -> dict[str, str]:
    """Versions of TensorFlow and Keras, of those that are installed; {} without TensorFlow."""
    return versions({"tensorflow": _WHEELS, "keras": ("keras",)}, needs="tensorflow")


def import_all(packages: tuple[str, ...] = ()) -> None:
    """Import TensorFlow and packages beside it.

    Raises:
        Unavailable: see `imports`.
    """
    for package in ("tensorflow", *packages):
        try:
            module = import_module(package)
        except ImportError as error:
            raise Unavailable(
                f"{package} cannot be imported",
                why=str(error).partition("\n")[0],
                next="pip install 'laptime[tensorflow]'",
            ) from error
        if package == "keras" and module.config.backend() != "tensorflow":
            raise Unavailable(
                f"Keras runs on {module.config.backend()} here, not on TensorFlow",
                why="KERAS_BACKEND or ~/.keras/keras.json says so",
                next="KERAS_BACKEND=tensorflow laptime ...",
            )
