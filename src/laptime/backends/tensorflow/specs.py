"""Inputs for a model that tells their shapes and dtypes: Keras inputs, signatures, tf.functions.

Floats are standard normal, integers 0 or 1 (below the size of any vocabulary), booleans likewise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from laptime.kit.errors import TargetError, UsageError


def maker(specs: Any, *, target: str, shapes: dict[str, list[int]]) -> Callable[[int], Any]:
    """A maker of inputs for a batch size. Only the first dimension may stay open: it is the batch.

    Args:
        specs: nested structure of things with `shape` and `dtype`.
        target: for messages.
        shapes: sizes without the batch, by name of the input.

    Raises:
        TargetError: another dimension is open, or the dtype is none that numbers can be drawn for.
    """
    import tensorflow as tf

    for spec in tf.nest.flatten(specs):
        sizes = _sizes(spec, shapes, target)
        if None in sizes[1:]:
            raise _open(target, spec, f"{_name(spec)} is {_words(spec, sizes)}")
        kind = tf.as_dtype(spec.dtype)
        if not (kind.is_floating or kind.is_integer or kind.is_bool):
            raise TargetError(
                f"no inputs of {target} can be made",
                why=f"{_name(spec)} is of dtype {kind.name}",
                next="write file.py with a function that returns (model, inputs)",
            )

    def make(batch: int) -> Any:
        return tf.nest.map_structure(
            lambda spec: _drawn(spec, _sizes(spec, shapes, target), batch, target), specs
        )

    return make


def batch_of(specs: Any) -> int:
    """The batch size that the shapes fix; 1 where they leave it open."""
    import tensorflow as tf

    for spec in tf.nest.flatten(specs):
        if getattr(spec.shape, "rank", True) and len(spec.shape) and spec.shape[0] is not None:
            return int(spec.shape[0])
    return 1


def _drawn(spec: Any, sizes: list[int | None], batch: int, target: str) -> Any:
    import numpy as np
    import tensorflow as tf

    if sizes and sizes[0] not in (None, batch):
        raise UsageError(
            f"{target} cannot take batch {batch}",
            why=f"{_name(spec)} is {_words(spec, sizes)}: its batch is fixed",
            next=f"--batch {sizes[0]}",
        )
    shape = [batch, *(size or 1 for size in sizes[1:])] if sizes else []  # none of them is open: see `maker`
    kind = tf.as_dtype(spec.dtype)
    generator = np.random.default_rng(0)
    if kind.is_floating:
        return tf.cast(tf.constant(generator.standard_normal(shape, np.float32)), kind)
    return tf.cast(tf.constant(generator.integers(0, 2, shape)), kind)


def _sizes(spec: Any, shapes: dict[str, list[int]], target: str) -> list[int | None]:
    try:
        dims: list[int | None] = list(spec.shape)
    except ValueError:  # a TensorShape of unknown rank
        dims = []
        if _name(spec) not in shapes:
            raise _open(target, spec, f"not even the number of dimensions of {_name(spec)} is told") from None
    given = shapes.get(_name(spec))
    return [dims[0] if dims else None, *given] if given else dims


def _open(target: str, spec: Any, why: str) -> TargetError:
    return TargetError(
        f"the sizes of the inputs of {target} are open",
        why=why,
        next=f"--shape {_name(spec)}=224x224x3, say, without the batch",
    )


def _name(spec: Any) -> str:
    return str(getattr(spec, "name", None) or "input")


def _words(spec: Any, sizes: list[int | None]) -> str:
    shape = ", ".join("?" if length is None else str(length) for length in sizes)
    return f"{getattr(spec.dtype, 'name', spec.dtype)} ({shape})"
