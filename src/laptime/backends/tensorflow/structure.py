"""Nested inputs and outputs of TensorFlow: re-batch them, put them in words, look at their numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from laptime.kit.errors import TargetError
from laptime.targets import arguments

if TYPE_CHECKING:
    import numpy as np


def leaves(value: Any) -> list[Any]:
    """Everything in a structure that has a shape and a dtype: tensors, variables, arrays."""
    import tensorflow as tf

    return [leaf for leaf in tf.nest.flatten(value) if hasattr(leaf, "shape") and hasattr(leaf, "dtype")]


def dtype(tensor: Any) -> str:
    """Name of a dtype of TensorFlow, Keras or NumPy."""
    return str(getattr(tensor.dtype, "name", tensor.dtype))


def passed(inputs: Any, *, is_keras: bool) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """How inputs are passed. A Keras model takes a mapping as its one argument, anything else by keyword."""
    return ((inputs,), {}) if is_keras and isinstance(inputs, Mapping) else arguments(inputs)


def batch_of(inputs: Any) -> int | None:
    """The batch size: the first dimension that all tensors share; None where there is none."""
    lengths = {int(leaf.shape[0]) for leaf in leaves(inputs) if len(leaf.shape)}
    return lengths.pop() if len(lengths) == 1 else None


def batched(inputs: Any) -> bool:
    """Whether any tensor has a dimension."""
    return any(len(leaf.shape) for leaf in leaves(inputs))


def batch_is(inputs: Any) -> str:
    """How the batch of inputs is known, or why it is not."""
    if not batched(inputs):
        return "no tensor in the given inputs has a batch"
    if batch_of(inputs) is None:
        return f"the inputs share no first dimension: {words(inputs)}"
    return "the first dimension of every input"


def rebatched(inputs: Any, batch: int) -> Any:
    """Inputs with another batch size: items repeated from the front, or cut.

    Raises:
        TargetError: nothing in them says which part is the batch, or the batch given is empty.
    """
    import numpy as np
    import tensorflow as tf

    given = batch_of(inputs)
    if given == batch or (given is None and batch == 1):
        return inputs
    if not given:
        raise TargetError(
            f"inputs of batch {batch} cannot be made",
            why="the given inputs are empty" if given == 0 else batch_is(inputs),
            next="give the function a `batch` argument, or pass inputs as a function of the batch size",
        )
    order = np.arange(batch) % given

    def change(leaf: Any) -> Any:
        is_batched = hasattr(leaf, "shape") and len(leaf.shape) and leaf.shape[0] == given
        if not is_batched:
            return leaf
        return leaf[order] if isinstance(leaf, np.ndarray) else tf.gather(leaf, order)

    return tf.nest.map_structure(change, inputs)


def tensors(inputs: Any) -> Any:
    """Inputs with their arrays as tensors, so that no call pays for the copy."""
    import numpy as np
    import tensorflow as tf

    def change(leaf: Any) -> Any:
        return tf.convert_to_tensor(leaf) if isinstance(leaf, np.ndarray) else leaf

    return tf.nest.map_structure(change, inputs)


def numpied(inputs: Any) -> Any:
    """Inputs for `predict`: arrays of NumPy; positional arguments as a list, one alone as itself."""
    import tensorflow as tf

    plain = tf.nest.map_structure(lambda leaf: leaf.numpy() if hasattr(leaf, "numpy") else leaf, inputs)
    if isinstance(plain, tuple):
        return plain[0] if len(plain) == 1 else list(plain)
    return plain


def arrays(value: Any) -> list[np.ndarray[Any, Any]]:
    """The tensors of a structure as NumPy arrays, short floats as float32; mappings by sorted key."""
    import numpy as np

    outputs = [np.asarray(leaf) for leaf in leaves(value)]
    # NumPy knows bfloat16 only as a guest.
    return [a.astype(np.float32) if a.dtype.name in ("bfloat16", "float16") else a for a in outputs]


def finite(value: Any) -> bool | None:
    """Whether all floating-point tensors of a structure hold finite numbers only; None without any."""
    import tensorflow as tf

    floats = [leaf for leaf in leaves(value) if tf.as_dtype(leaf.dtype).is_floating]
    if not floats:
        return None
    return all(bool(tf.reduce_all(tf.math.is_finite(leaf))) for leaf in floats)


def size(value: Any) -> int:
    """Bytes of all tensors of a structure."""
    import tensorflow as tf

    sizes = ((tf.TensorShape(leaf.shape), tf.as_dtype(leaf.dtype)) for leaf in leaves(value))
    return sum((shape.num_elements() or 0) * kind.size for shape, kind in sizes)


def words(value: Any) -> str:
    """A structure in words: `float32 (8, 1000)`, `{logits: float32 (8, 10)}`."""
    import tensorflow as tf

    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"{tf.as_dtype(value.dtype).name} ({', '.join(str(length) for length in value.shape)})"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {words(part)}" for key, part in value.items()) + "}"
    if isinstance(value, list | tuple):
        opening, closing = ("[", "]") if isinstance(value, list) else ("(", ")")
        return opening + ", ".join(words(part) for part in value) + closing
    return type(value).__name__
