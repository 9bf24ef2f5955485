"""FLOP of products by the sizes of what is multiplied: 2 x multiply-accumulates.

Source: `torch.utils.flop_counter`."""

from collections.abc import Sequence
from math import prod
from typing import Any

Shape = Sequence[int]


def matrix_vector(matrix: Shape, *rest: Any, **named: Any) -> int:
    """A matrix times a vector, a vector times a vector: each element once."""
    return 2 * prod(matrix)


def matrix_product(left: Shape, right: Shape, *rest: Any, **named: Any) -> int:
    """(..., m, k) times (..., k, n)."""
    return 2 * prod(left) * right[-1]


def attention(query: Shape, key: Shape, value: Shape, *rest: Any, **named: Any) -> int:
    """(..., queries, d), (..., keys, d), (..., keys, dv): queries x keys, weights x values; heads of keys may
    be fewer than those of queries. Masks are not seen: what a causal kernel skips is counted."""
    scores = prod(query[:-1]) * key[-2]
    return 2 * scores * (query[-1] + value[-1])


def attention_backward(query: Shape, key: Shape, value: Shape) -> int:
    """Five products: the scores once more, and the gradients of weights, values, queries and keys; as
    `sdpa_backward_flop_count` of torch.utils.flop_counter."""
    scores = prod(query[:-1]) * key[-2]
    return 2 * scores * (3 * query[-1] + 2 * value[-1])


def convolution(places: Shape, weight: Shape) -> int:
    """Every element of the output, or of the input if it is transposed, meets the kernel of each channel
    of its group.
    weight: (out, in / groups, *kernel)."""
    return 2 * prod(places) * prod(weight[1:])


def recurrent_layer(inputs: Shape, w_input: Shape, w_hidden: Shape, *rest: Any, **named: Any) -> int:
    """One layer in one direction: (T, B, in) through (gates x hidden, in) and (gates x hidden, hidden)."""
    return 2 * prod(inputs[:-1]) * (prod(w_input) + prod(w_hidden))
