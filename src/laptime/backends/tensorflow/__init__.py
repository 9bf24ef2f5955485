"""TensorFlow: Keras models, SavedModels and functions; as a tf.function, compiled by XLA, or eager.

Nothing here imports tensorflow before `open`, `open_object` or `imports` is called.

    modes       tf.function, XLA, eager, predict: the call that is made of a model; nested inputs and outputs
    place       devices, threads, versions and knobs; how to wait; what TensorFlow raises
    prepare     settings, dtype, inputs (told by the model, too) and running statistics of a program
    model       a loaded target and its workloads
    count       parameters, MACs and FLOPs with receipt"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from laptime.backends._shared import versions
from laptime.kit.errors import Unavailable
from laptime.kit.extras import install
from laptime.records.plan import Variant

if TYPE_CHECKING:
    from laptime.backends.tensorflow.model import TensorflowModel

__all__ = ["OPTIONS", "TARGETS", "available", "imports", "open", "open_object"]
TARGETS = ("keras", "keras_file", "saved_model", "file", "module")  # kinds of targets that it can run
OPTIONS = {
    "mode": "function (a tf.function; the default for Keras models), xla, eager, or predict "
    "(model.predict, Keras's own loop)",
    "inter_threads": "operators that may run at once; --threads is for the threads inside one",
}
_WHEELS = ("tensorflow", "tensorflow-cpu", "tensorflow-rocm", "tensorflow-macos", "tf-nightly")


def available() -> dict[str, str]:
    """Versions of TensorFlow and Keras, of those that are installed; {} without TensorFlow."""
    return versions({"tensorflow": _WHEELS, "keras": ("keras",)}, needs="tensorflow")


def import_all(packages: tuple[str, ...] = ()) -> None:
    """Import TensorFlow and packages beside it. Raises Unavailable: see `imports`."""
    for package in ("tensorflow", *packages):
        try:
            module = import_module(package)
        except ImportError as error:
            raise Unavailable(
                f"{package} cannot be imported", why=str(error).partition("\n")[0], next=install("tensorflow")
            ) from error
        if package == "keras" and module.config.backend() != "tensorflow":
            raise Unavailable(
                f"Keras runs on {module.config.backend()} here, not on TensorFlow",
                why="KERAS_BACKEND or ~/.keras/keras.json says so",
                next="set KERAS_BACKEND=tensorflow, then the same command again",
            )


def imports(variant: Variant) -> None:
    """Import TensorFlow and the package of the target, so that import time and load time can be told apart.
    Raises Unavailable: one is not there, or Keras runs on something else. TargetError, UsageError: no such
    target or mode."""
    from laptime.backends.tensorflow import prepare
    from laptime.targets import parse

    prepare.check(variant)
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    import_all(parse(variant.target).packages)


def open(variant: Variant) -> "TensorflowModel":
    """The target of a variant on its device. Traces and compiles nothing yet.
    Raises Unavailable: TensorFlow or the device is not there. TargetError, UserCodeError, OutOfMemory: see
    `laptime.targets`. UsageError: the model cannot run in the dtype or mode asked for."""
    imports(variant)
    from laptime.backends.tensorflow.model import load

    return load(variant)


def open_object(subject: Any, inputs: Any, variant: Variant) -> "TensorflowModel":
    """A model or function of this process; `inputs` as in `laptime.targets.Program`, or by batch size.

    The object is not changed. Threads and visible devices can be chosen only before TensorFlow has started.
    Raises UsageError: no inputs are given and the model does not tell them, or it is too late to choose."""
    import_all()
    from laptime.backends.tensorflow.model import adopt

    return adopt(subject, inputs, variant)
