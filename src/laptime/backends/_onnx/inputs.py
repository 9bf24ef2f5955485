"""The inputs of a model file: names, dtypes, sizes. Open sizes come from the batch and from `--shape`.

The names of an ONNX file's dimensions, which OpenVINO drops when it reads the file.

Read from the bytes, so that neither the package onnx is needed nor the weights are loaded. Numbers of fields:
github.com/onnx/onnx/blob/main/onnx/onnx.proto."""

import mmap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from laptime.kit.errors import UsageError
from laptime.kit.protobuf import NUMBER, Damaged, fields
from laptime.kit.text import closest

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Input:
    """One input of a model file."""

    name: str  # as the file has it
    dtype: str  # numpy's name
    dims: tuple[int | str, ...]  # sizes; a text is a dimension without one, "" if it has no name either

    @property
    def words(self) -> str:
        """Its shape in words: `(batch, 3, ?, ?)`."""
        return f"({', '.join(str(size) or '?' for size in self.dims)})"


def sizes(
    inputs: Sequence[Input], batch: int, given: Mapping[str, Sequence[int]], *, target: str
) -> dict[str, tuple[int, ...]]:
    """The shape of every input. A leading dimension without size is the batch, and so is each of its name.
    given: by input, its sizes without the batch; by name of a dimension, its one size.
    Raises UsageError: a size stays open, one given contradicts the file, or the file has another batch."""
    names = [each.name for each in inputs]
    dimensions = [size for each in inputs for size in each.dims if isinstance(size, str) and size]
    for name, values in given.items():
        if name in names or (name in dimensions and len(values) == 1):
            continue
        near = closest(name, [*names, *dimensions])
        raise UsageError(
            f"--shape {name}={'x'.join(map(str, values))} names no input and no dimension",
            why=f"it takes {', '.join(f'{each.name} {each.words}' for each in inputs)}",
            next=f"did you mean --shape {near}=...?" if near else f"--shape {names[0]}=...",
        )
    leading = {each.dims[0] for each in inputs if each.dims and isinstance(each.dims[0], str)}
    fixed = {each.dims[0] for each in inputs if each.dims and isinstance(each.dims[0], int)}
    if not leading and batch not in (fixed or {1}):
        size = min(fixed, default=1)
        raise UsageError(
            f"{target} is made for batch {size}, not {batch}",
            why=f"its shapes are {', '.join(each.words for each in inputs)}: no size is left open",
            next=f"--batch {size}, or export it with a dynamic batch",
        )
    named_sizes = {str(name): batch for name in leading if name} | {
        name: values[0] for name, values in given.items() if name not in {each.name for each in inputs}
    }
    return {each.name: _shape(each, batch, named_sizes, given.get(each.name), target) for each in inputs}


def _shape(
    each: Input, batch: int, known: Mapping[str, int], given: Sequence[int] | None, target: str
) -> tuple[int, ...]:
    dims: list[int | str] = [known.get(size, size) if isinstance(size, str) else size for size in each.dims]
    if dims and isinstance(dims[0], str):
        dims[0] = batch
    if given is not None:
        open_dims = each.dims[1:]
        fits = len(given) == len(open_dims) and all(
            isinstance(size, str) or size == number for size, number in zip(open_dims, given, strict=True)
        )
        if not fits:
            raise UsageError(
                f"--shape {each.name}={'x'.join(map(str, given))} does not fit",
                why=f"its shape is {each.words}; sizes are given without the first, the batch",
                next=f"--shape {each.name}={'x'.join(_size(size, each) for size in open_dims)}",
            )
        dims = [dims[0], *given]
    if any(isinstance(size, str) for size in dims):
        item = "x".join(_size(size, each) for size in dims[1:])
        raise UsageError(
            f"{target}: the input {each.name!r} leaves sizes open",
            why=f"its shape is {each.words}; the first is the batch, the others are not known",
            next=f"--shape {each.name}={item}   (without the batch)",
        )
    return tuple(int(size) for size in dims)


def _size(size: int | str, each: Input) -> str:
    return str(size) if isinstance(size, int) else "224" if len(each.dims) == 4 else "128"


def random(each: Input, shape: tuple[int, ...], generator: np.random.Generator) -> Array:
    """Values for an input of which only the dtype is known: floats from N(0, 1), whole numbers 0 and 1.

    Whole numbers are often indices into something (tokens, classes): 0 and 1 are always in range."""
    dtype = np.dtype(each.dtype)
    if dtype.kind == "f":
        return generator.standard_normal(shape, np.float32).astype(dtype)
    return generator.integers(0, 2, shape).astype(dtype)


def rebatch(arrays: Sequence[Array], old_batch: int | None, batch: int) -> list[Array]:
    """Arrays with another batch: items repeated from the front, or cut, if the first size is `given`."""
    if old_batch in (None, batch):
        return list(arrays)
    order = np.arange(batch) % old_batch
    return [array[order] if array.ndim and array.shape[0] == old_batch else array for array in arrays]


def words(array: Array) -> str:
    """`float32 (8, 3, 224, 224)`."""
    return f"{array.dtype} ({', '.join(map(str, array.shape))})"


# Names of dimensions.


_GRAPH, _INPUT, _NAME, _TYPE, _TENSOR, _SHAPE, _DIM, _PARAM = 7, 11, 1, 2, 1, 2, 1, 2


def dimension_names(path: Path) -> dict[str, list[str]]:
    """Return the name of each dimension by input, "" if it has none; empty for other files."""
    if path.suffix != ".onnx":
        return {}
    damaged = (OSError, ValueError, Damaged, UnicodeDecodeError)
    with (
        suppress(*damaged),
        path.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
    ):
        return dict(_inputs(data))
    return {}


def _inputs(data: mmap.mmap) -> Iterator[tuple[str, list[str]]]:
    for graph in _within(data, (0, len(data)), _GRAPH):
        for each in _within(data, graph, _INPUT):
            name = next(_within(data, each, _NAME), None)
            shapes = [
                shape
                for kind in _within(data, each, _TYPE)
                for tensor in _within(data, kind, _TENSOR)
                for shape in _within(data, tensor, _SHAPE)
            ]
            names = [
                next((data[slice(*text)].decode() for text in _within(data, dim, _PARAM)), "")
                for shape in shapes
                for dim in _within(data, shape, _DIM)
            ]
            if name is not None:
                yield data[slice(*name)].decode(), names


def _within(data: mmap.mmap, place: tuple[int, int], number: int) -> Iterator[tuple[int, int]]:
    """Begin and end of every field of this number in the message at a place."""
    for key, begin, end in fields(data, *place):
        if key == number and end != NUMBER:
            yield begin, end
