"""Inputs of a batch size, and trees of arrays: walked, moved, put in words."""

from __future__ import annotations

from typing import Any

from laptime.kit.errors import TargetError, UsageError
from laptime.targets import Program
from laptime.targets._code import needed


def is_array(leaf: Any) -> bool:
    """Whether a leaf is an array of JAX's or NumPy's."""
    import jax
    import numpy

    return isinstance(leaf, jax.Array | numpy.ndarray)


def arrays(tree: Any) -> list[Any]:
    """All arrays of a tree."""
    import jax

    return [leaf for leaf in jax.tree.leaves(tree) if is_array(leaf)]


def moved(tree: Any, device: Any, dtype: str) -> Any:
    """Arrays of a tree on a device; floats in the dtype ("auto": their own), everything else as it is."""
    import jax
    import jax.numpy as jnp

    def change(leaf: Any) -> Any:
        if not is_array(leaf):
            return leaf
        cast = dtype != "auto" and jnp.issubdtype(leaf.dtype, jnp.floating)
        return jax.device_put(leaf.astype(dtype) if cast else leaf, device)

    return jax.tree.map(change, tree)


def example(program: Program, target: str) -> Any:
    """Inputs as they were given, of whatever batch size; those of batch 1 where they are made.

    Raises:
        TargetError: there are none, and the model needs some.
    """
    if program.make is not None:
        return program.make(1)
    if program.inputs is not None:
        return program.inputs
    if needed(program.call):
        raise TargetError(
            f"{target} came without inputs",
            why="nothing in a JAX model tells what shapes it takes",
            next="return (model, inputs) from the function",
        )
    return ()


def rebatched(given: Any, batch: int) -> Any:
    """Inputs with another batch size: items repeated from the front, or cut.

    The batch is the first dimension that all arrays passed directly as arguments share: parameters in
    nested containers are no items. Without such arrays that of all arrays counts.

    Raises:
        UsageError: they share none, so nothing tells which part is the batch.
    """
    import jax
    import numpy

    old = batch_of(given)
    if old == batch or (old is None and batch == 1):
        return given
    if not old:
        raise UsageError(
            f"inputs of batch {batch} cannot be made",
            why=batch_is(given),
            next="give the function a `batch` argument, or pass inputs as a function of the batch size",
        )
    ours = {id(leaf) for leaf in items_of(given) if leaf.shape[0] == old}
    order = numpy.arange(batch) % old
    return jax.tree.map(lambda leaf: leaf[order] if id(leaf) in ours else leaf, given)


def items_of(given: Any) -> list[Any]:
    """The arrays that hold items: arguments themselves, else whatever is nested in them."""
    parts = given.values() if isinstance(given, dict) else given if isinstance(given, tuple) else [given]
    direct = [part for part in parts if is_array(part) and part.ndim]
    return direct or [leaf for leaf in arrays(given) if leaf.ndim]


def batch_of(given: Any) -> int | None:
    """The batch size of inputs; None where nothing tells. See `rebatched`."""
    lengths = {int(leaf.shape[0]) for leaf in items_of(given)}
    return lengths.pop() if len(lengths) == 1 else None


def batch_is(given: Any) -> str:
    """How the batch of inputs is known, or why it is not."""
    items = items_of(given)
    if not items:
        return "no array in the given inputs has a batch"
    if batch_of(given) is None:
        return f"the inputs share no first dimension: {words(items)}"
    return "the first dimension of every array passed as an argument"


def words(tree: Any) -> str:
    """Arrays in words: `float32 (8, 1000), int32 (8)`; the type's name where there is none."""
    texts = [f"{leaf.dtype} ({', '.join(map(str, leaf.shape))})" for leaf in arrays(tree)]
    return ", ".join(texts[:8]) + (f" and {len(texts) - 8} more" if len(texts) > 8 else "") or "no array"
