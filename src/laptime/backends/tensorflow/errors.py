"""What TensorFlow raises, as laptime's errors. Only exhausted memory is OutOfMemory."""

from __future__ import annotations

import re

from laptime.kit.errors import LaptimeError, OutOfMemory, UserCodeError
from laptime.targets._code import line_of

_EXHAUSTED = ("OOM when allocating", "Out of memory", "out of memory", "std::bad_alloc")
_UNCOMPILABLE = ("unsupported operations", "XLA can't", "must be a compile-time constant", "tf2xla")
_NODE = re.compile(
    r"^(\{\{[^}]*\}\}\s*)+"
)  # "{{function_node __inference_call_47}}", names of nobody's choice
_LONGEST = 300


def memory_exhausted(error: BaseException | None) -> bool:
    """Whether an exception, or what it was raised from, says that memory is exhausted."""
    import tensorflow as tf

    while error is not None:
        if isinstance(error, MemoryError | tf.errors.ResourceExhaustedError):
            return True
        if not isinstance(error, LaptimeError) and any(text in str(error) for text in _EXHAUSTED):
            return True
        error = error.__cause__
    return False


def translate(error: BaseException, *, doing: str, inputs: str = "") -> LaptimeError:
    """One of laptime's errors for whatever loading or calling a model raised; laptime's own come back as they
    are, unless memory is behind them. doing: the first line. inputs: in words, told when the model refuses
    them."""
    if memory_exhausted(error):
        return OutOfMemory(
            f"{doing}: memory is exhausted",
            why=_line(error.__cause__ or error),
            next="a smaller --batch, or --batch auto to find the largest that fits",
        )
    if isinstance(error, LaptimeError):
        return error
    if any(text in str(error) for text in _UNCOMPILABLE):
        return UserCodeError(
            f"{doing}: XLA cannot compile it", why=_line(error), next="--option mode=function"
        )
    why = f"{type(error).__name__}: {_line(error)}"
    if place := line_of(error):
        why += f" ({place})"
    if inputs:
        why += f"; the inputs were {inputs}"
    return UserCodeError(
        doing, why=why, next="check the model and its inputs: return (model, inputs) that fit"
    )


def _line(error: BaseException) -> str:
    """The first line that says something: Keras and TensorFlow put frames of their own before it."""
    lines = [line.strip() for line in str(error).splitlines()]
    line_shown = next((line for line in lines if line and not line.startswith("Graph execution error")), "")
    line_shown = _NODE.sub("", line_shown) or type(error).__name__
    return line_shown if len(line_shown) <= _LONGEST else line_shown[: _LONGEST - 4] + " ..."
