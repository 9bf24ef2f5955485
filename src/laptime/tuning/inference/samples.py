"""Functions of the user's, named `FILE.py:FUNCTION`, and the samples that the one of `--inputs` gives.

A sample is what a call takes: a tensor, a tuple of tensors by position, or a dict of tensors by keyword;
NumPy arrays count as tensors. The first one is what is timed, and all that builders may look at; the others
are held out, and what `--metric` scores. The function may be a generator: no more samples are drawn than are
looked at."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from laptime.kit.errors import TargetError, UsageError
from laptime.measure.recorded_calls import Array, RecordedCalls
from laptime.targets import file
from laptime.tuning.inference.arm_process import to_tensors, types_of

MOST = 1000  # samples that are drawn at most


@dataclass(frozen=True)
class Sample:
    """Inputs of one call."""

    arrays: list[Array]  # in the order in which the call takes them
    names: tuple[str, ...] = ()  # keywords of the arrays; () if they are given by position
    types: Sequence[str] = ()  # of their tensors, see `RecordedCalls`

    def reorder(self, names: Sequence[str]) -> Sample:
        """Return the sample with its keywords in another order; the same if there are none.
        Raises TargetError: the call takes others."""
        if not self.names:
            return self
        if set(names) != set(self.names):
            raise TargetError(
                f"the samples have {', '.join(self.names)}",
                why=f"the model is called with {', '.join(names) or 'no keywords'}",
                next="yield dicts with these names",
            )
        order = [self.names.index(name) for name in names]
        types = [self.types[at] for at in order if self.types]
        return Sample([self.arrays[at] for at in order], tuple(names), types)

    def inputs(self) -> Any:
        """Return the inputs of a target: tensors by keyword, by position, or the only one."""
        tensors = to_tensors(self.arrays, self.types)
        return dict(zip(self.names, tensors, strict=True)) if self.names else tuple(tensors)


def draw(function: str) -> Iterator[Sample]:
    """Yield the samples of a user's function. function: `FILE.py:FUNCTION`.
    Raises TargetError: it gives no samples, or one that is no sample or not like the first. UserCodeError: it
    raised."""
    given = call_user(function)
    if not isinstance(given, Iterable) or isinstance(given, Mapping) or hasattr(given, "shape"):
        raise _unusable(function, f"it returned {type(given).__name__}, not a list or generator of samples")
    first: Sample | None = None
    for number, value in enumerate(islice(guard(function, given), MOST)):
        sample = _sample(function, number, value)
        if first is not None and _kinds(sample) != _kinds(first):
            raise _unusable(function, f"sample {number} is {_words(sample)}, the first one {_words(first)}")
        first = first or sample
        yield sample
    if first is None:
        raise _unusable(function, "it gave no sample")


def first_of(calls: Path, names: Iterable[str]) -> Sample:
    """The sample of the first recorded call of a file. names: keywords of its inputs, none if they are
    given by position."""
    recorded = RecordedCalls.load(calls)
    return Sample(recorded.calls[0].inputs, tuple(names), recorded.types)


def _sample(function: str, number: int, value: Any) -> Sample:
    names: tuple[str, ...] = ()
    if isinstance(value, Mapping):
        names, parts = tuple(map(str, value)), list(value.values())
    else:
        parts = list(value) if isinstance(value, tuple | list) else [value]
    if not parts or not all(hasattr(part, "shape") and hasattr(part, "dtype") for part in parts):
        raise _unusable(function, f"sample {number} is not made of tensors")
    arrays = [np.array(part.float() if "bfloat16" in str(part.dtype) else part) for part in parts]
    if any(array.dtype.kind in "fc" and np.isnan(array).any() for array in arrays):
        raise _unusable(function, f"sample {number} holds NaN, which no output can be compared on")
    return Sample(arrays, names, types_of(parts))


def _kinds(sample: Sample) -> Any:
    return sample.names, [(array.dtype, array.ndim) for array in sample.arrays]


def _words(sample: Sample) -> str:
    return ", ".join(f"{array.dtype}{list(array.shape)}" for array in sample.arrays)


def _unusable(function: str, why: str) -> TargetError:
    return TargetError(
        f"{function} gives no inputs",
        why=why,
        next="yield what one call takes: a tensor, a tuple of tensors, or a dict of tensors",
    )


EXAMPLES = {"--inputs": "data.py:samples", "--metric": "eval.py:accuracy"}


def check(option: str, text: str) -> None:
    """Refuse what names no function, without running anything.
    Raises UsageError: it is not written like that. TargetError: there is no such file or function.
    UserCodeError: the file is not valid Python."""
    if not file.matches(text):
        raise UsageError(
            f"{option} {text} names no function",
            why="it is written FILE.py:FUNCTION",
            next=f"{option} {EXAMPLES[option]}",
        )
    file.resolve(text)


def call_user(text: str, *arguments: Any) -> Any:
    """Return the function's result. Raises TargetError: there is none. UserCodeError: it raised."""
    function = file.function(text)
    try:
        return function(*arguments)
    except (Exception, SystemExit) as error:
        raise file.wrap_error(text, error) from error


def guard(text: str, values: Iterable[Any]) -> Iterator[Any]:
    """The values of what the function returned, which may be a generator. Raises UserCodeError: it raised."""
    try:
        yield from values
    except (Exception, SystemExit) as error:
        raise file.wrap_error(text, error) from error
