"""TensorFlow: Keras models, SavedModels and functions; as a tf.function, compiled by XLA, or eager.

Nothing here imports tensorflow before `open`, `open_object` or `imports` is called.

    package     versions, options, and how TensorFlow is imported
    structure   nested inputs and outputs: re-batch, describe, hand over
    specs       inputs from the shapes and dtypes that a model tells
    modes       tf.function, XLA, eager, predict: the call that is made of a model
    place       devices, threads, versions and knobs; how to wait
    prepare     settings, dtype, inputs and running statistics of a program
    model       a loaded target and its workloads
    count       parameters, MACs and FLOPs with receipt
    errors      what TensorFlow raises, as laptime's errors
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from laptime.backends.tensorflow.package import OPTIONS, TARGETS, available, import_all
from laptime.records.plan import Variant

if TYPE_CHECKING:
    from laptime.backends.tensorflow.model import TensorflowModel

__all__ = ["OPTIONS", "TARGETS", "available", "imports", "open", "open_object"]


def imports(variant: Variant) -> None:
    """Import TensorFlow and the package of the target, so that import time and load time can be told apart.

    Raises:
        Unavailable: one of them is not installed or does not import, or Keras runs on something else here.
        TargetError: see `laptime.targets.parse`.
        UsageError: the variant asks for what no model can do.
    """
    from laptime.backends.tensorflow import prepare
    from laptime.targets import parse

    prepare.check(variant)
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    import_all(parse(variant.target).packages)


def open(variant: Variant) -> TensorflowModel:
    """The target of a variant on its device. Traces and compiles nothing yet.

    Raises:
        Unavailable: TensorFlow or the device is not there.
        TargetError, UserCodeError, OutOfMemory: see `laptime.targets`.
        UsageError: the model cannot run in the dtype or mode asked for.
    """
    imports(variant)
    from laptime.backends.tensorflow.model import load

    return load(variant)


def open_object(subject: Any, inputs: Any, variant: Variant) -> TensorflowModel:
    """A model or function of this process; `inputs` as in `laptime.targets.Program`, or by batch size.

    The object is not changed. Threads and visible devices can be chosen only before TensorFlow has started.

    Raises:
        UsageError: no inputs are given and the model does not tell them, or it is too late to choose.
    """
    import_all()
    from laptime.backends.tensorflow.model import adopt

    return adopt(subject, inputs, variant)
