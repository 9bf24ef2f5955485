"""FLOP and least bytes of one call by the tensors that go in: one function a kind of operator.

Each gets the inputs that are tensors, in order, and the shape of the output, if the caller knows it; an
IndexError or ValueError says that no call has such inputs."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import zip_longest
from math import prod
from typing import NamedTuple

from laptime.analysis import products
from laptime.analysis.products import Shape


class Tensor(NamedTuple):
    """An input: `size` is the bytes of one element."""

    shape: Shape
    dtype: str
    size: int

    @property
    def bytes(self) -> int:
        """The bytes of all elements."""
        return prod(self.shape) * self.size


Formula = Callable[[Sequence[Tensor], "Shape | None"], "tuple[int, int] | None"]
"""From the tensors and the output's shape, if the caller knows it, to FLOP and bytes."""


def _bytes(*tensors: Tensor) -> int:
    return sum(tensor.bytes for tensor in tensors)


def _write(shape: Shape, like: Tensor) -> int:
    """Bytes of a result in the type of an input."""
    return prod(shape) * like.size


def _broadcast(*shapes: Shape) -> list[int]:
    columns = zip_longest(*(reversed(shape) for shape in shapes), fillvalue=1)
    return [0 if 0 in sizes else max(sizes) for sizes in columns][::-1]


def matmul(tensors: Sequence[Tensor], output: Shape | None) -> tuple[int, int]:
    left, right = tensors[:2]
    a, b = left.shape, right.shape
    if len(a) < 2 or len(b) < 2:
        whole, vector = (a, b) if len(b) < 2 else (b, a)
        shape = whole[:-1] if len(b) < 2 else [*whole[:-2], whole[-1]]
        if not whole or len(vector) != 1:
            raise ValueError("no product of these")
        return products.matrix_vector(whole), _bytes(left, right) + _write(shape, left)
    if a[-1] != b[-2]:
        raise ValueError("inner sizes differ")
    batch = _broadcast(a[:-2], b[:-2])
    flop = products.matrix_product([*batch, *a[-2:]], b)
    return flop, _bytes(left, right) + _write([*batch, a[-2], b[-1]], left)


def add_matmul(tensors: Sequence[Tensor], output: Shape | None) -> tuple[int, int]:
    """A product that is added to the first input."""
    flop, moved = matmul(tensors[1:], output)
    return flop, moved + tensors[0].bytes


def linear(tensors: Sequence[Tensor], output: Shape | None) -> tuple[int, int]:
    inputs, weight, *bias = tensors
    if inputs.shape[-1] != weight.shape[-1]:
        raise ValueError("inner sizes differ")
    shape = [*inputs.shape[:-1], *weight.shape[:-1]]
    flop = 2 * prod(shape) * weight.shape[-1]
    return flop, _bytes(inputs, weight, *bias) + _write(shape, inputs)


def convolution(tensors: Sequence[Tensor], output: Shape | None) -> tuple[int, int] | None:
    inputs, weight, *bias = tensors
    if output is None:
        return None
    return products.convolution(output, weight.shape), _bytes(inputs, weight, *bias) + _write(output, inputs)


def conv_transpose(tensors: Sequence[Tensor], output: Shape | None) -> tuple[int, int]:
    """The output, whose size the inputs do not say, is left out of the bytes."""
    inputs, weight, *bias = tensors
    return products.convolution(inputs.shape, weight.shape), _bytes(inputs, weight, *bias)


def convolution_backward(tensors: Sequence[Tensor], output: Shape | None) -> tuple[int, int]:
    """Gradients of the input and of the weights: each has the products of the forward pass."""
    gradient, inputs, weight = tensors[:3]
    g, x, w = gradient.shape, inputs.shape, weight.shape
    if w[0] not in (g[1], x[1]):
        raise ValueError("no convolution has these")
    both = w[0] == g[1] == x[1]  # a transposed convolution makes more places, another one fewer
    places = (min(g, x, key=prod) if both else g) if w[0] == g[1] else x
    return 2 * products.convolution(places, w), _bytes(gradient, inputs, weight) + inputs.bytes + weight.bytes


def input_first(tensors: Sequence[Tensor], output: Shape | None) -> tuple[int, int]:
    """`convolution_backward` of older versions: (input, gradient, weight)."""
    inputs, gradient, weight = tensors[:3]
    return convolution_backward([gradient, inputs, weight], output)


def attention(tensors: Sequence[Tensor], output: Shape | None) -> tuple[int, int]:
    """(batch, heads, length, size); masks are read, too."""
    query, key, value = (tensor.shape for tensor in tensors[:3])
    flop = products.attention(query, key, value)
    return flop, _bytes(*tensors[:4]) + _write([*query[:-1], value[-1]], tensors[0])


def attention_backward(tensors: Sequence[Tensor], output: Shape | None) -> tuple[int, int]:
    """(gradient, query, key, value, ...)."""
    query, key, value = tensors[1:4]
    flop = products.attention_backward(query.shape, key.shape, value.shape)
    return flop, _bytes(*tensors[:4]) + _bytes(query, key, value)


def recurrent(tensors: Sequence[Tensor], output: Shape | None) -> tuple[int, int]:
    """oneDNN's layer: (T, B, in), (gates x hidden, in), (gates x hidden, hidden)."""
    inputs, w_input, w_hidden = (tensor.shape for tensor in tensors[:3])
    made = _write([*inputs[:-1], w_hidden[-1]], tensors[0])
    return products.recurrent_layer(inputs, w_input, w_hidden), _bytes(*tensors) + made


def like_first(tensors: Sequence[Tensor], output: Shape | None) -> tuple[int, int]:
    """One result in the size of the first input."""
    return prod(tensors[0].shape), _bytes(*tensors) + tensors[0].bytes


def elementwise(tensors: Sequence[Tensor], output: Shape | None, size: int = 0) -> tuple[int, int]:
    """`size`: bytes of an element of the result; 0: as many as the inputs have."""
    shape = _broadcast(*(tensor.shape for tensor in tensors))
    size = size or max(tensor.size for tensor in tensors if len(tensor.shape) == len(shape))
    return prod(shape), _bytes(*tensors) + prod(shape) * size


compared: Formula = partial(elementwise, size=1)


def read(tensors: Sequence[Tensor], output: Shape | None) -> tuple[int, int]:
    """The result, whose size the inputs do not say, is left out of the bytes."""
    return prod(tensors[0].shape), _bytes(*tensors)


def pool_backward(tensors: Sequence[Tensor], output: Shape | None) -> tuple[int, int]:
    """(gradient, input, ..., indices): a gradient in the size of the input; the input is not read."""
    gradient, inputs, *indices = tensors
    return prod(gradient.shape), _bytes(gradient, *indices) + inputs.bytes


def lookup(tensors: Sequence[Tensor], output: Shape | None) -> tuple[int, int]:
    """(table, indices): the rows that are written; how many different ones are read is not known."""
    table, indices = tensors[:2]
    return 0, indices.bytes + _write([*indices.shape, table.shape[-1]], table)


def copy(tensors: Sequence[Tensor], output: Shape | None) -> tuple[int, int]:
    """(to, from)."""
    return 0, _bytes(*tensors[:2])


def fill(tensors: Sequence[Tensor], output: Shape | None) -> tuple[int, int]:
    return 0, tensors[0].bytes
