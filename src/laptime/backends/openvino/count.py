"""Parameters and FLOPs of a model with known shapes, from OpenVINO's graph.

    Convolution                2 x outputs x weights of one output channel
    ConvolutionBackpropData    2 x inputs x weights of one input channel
    MatMul                     2 x outputs x length of the sum
    recurrent layer            2 x items x steps x elements of both weight matrices
    attention                  both products

Lies when: nodes that multiply have no formula (the receipt names them).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

_HEAVY = frozenset(
    {
        *("If", "Loop", "TensorIterator", "Einsum", "DFT", "IDFT", "RDFT", "IRDFT", "STFT", "Inverse"),
        *("DeformableConvolution", "BinaryConvolution", "PagedAttentionExtension"),
    }
)


def count(model: Any) -> tuple[dict[str, float], dict[str, Any]]:
    """Values by tag of a metric, and the receipt; no FLOPs, and the reason, where none are counted."""
    counted: Counter[str] = Counter()
    uncounted: Counter[str] = Counter()
    weights = 0
    for node in model.get_ops():
        kind = node.get_type_name()
        if kind == "Constant":
            is_float = node.get_element_type().to_dtype().kind == "f"
            # Bounds and epsilons of operators are constants without dimensions.
            weights += math.prod(node.get_output_shape(0)) if is_float and node.get_output_shape(0) else 0
        elif (formula := _FORMULAS.get(kind)) is not None:
            counted[kind] += formula(node)
        elif kind not in ("Parameter", "Result"):
            uncounted[kind] += 1
    doubtful = sorted({*uncounted} & _HEAVY)
    receipt: dict[str, Any] = {
        "counter": "shapes of OpenVINO's graph",
        "convention": "matrix products, convolutions, recurrent layers; MACs = FLOPs / 2",
        "counted": dict(counted.most_common()),
        "uncounted": dict(uncounted.most_common()),
        "doubtful": doubtful,
        "complete": not doubtful,
        "parameters": "all floating-point constants with dimensions, running statistics among them",
    }
    values = {"params/all": float(weights)}
    if total := sum(counted.values()):
        values |= {"macs": total / 2, "flops": float(total)}
    else:
        receipt["reason"] = "no matrix product or convolution is in the graph"
    return values, receipt


def _convolution(node: Any, *, leading: int = 1, is_backwards: bool = False) -> int:
    """2 x outputs (backwards: inputs) x weights of one channel, which come behind `leading` dimensions."""
    many = node.get_input_shape(0) if is_backwards else node.get_output_shape(0)
    return int(2 * math.prod(many) * math.prod(tuple(node.get_input_shape(1))[leading:]))


def _recurrent(weights: int) -> Callable[[Any], int]:
    """2 x items x steps x elements of the weights of inputs and states; `weights`: the place of the first."""

    def flops(node: Any) -> int:
        steps = math.prod(tuple(node.get_input_shape(0))[:-1])
        return int(2 * steps * sum(math.prod(node.get_input_shape(at)) for at in (weights, weights + 1)))

    return flops


def _product(node: Any) -> int:
    """2 x outputs x length of the sum."""
    is_turned = bool(node.get_attributes().get("transpose_a"))
    shape = tuple(node.get_input_shape(0))
    along = shape[-2] if is_turned and len(shape) > 1 else shape[-1]
    return int(2 * math.prod(node.get_output_shape(0)) * along)


def _attention(node: Any) -> int:
    """Both products: queries x keys, weights x values."""
    query, key, value = (tuple(node.get_input_shape(at)) for at in range(3))
    scores = math.prod(query[:-1]) * key[-2]
    return int(2 * scores * (query[-1] + value[-1]))


_FORMULAS: dict[str, Callable[[Any], int]] = {
    "Convolution": _convolution,  # weights are (out, in, ...)
    "GroupConvolution": partial(_convolution, leading=2),  # (groups, out, in, ...)
    "ConvolutionBackpropData": partial(_convolution, is_backwards=True),  # (in, out, ...)
    "GroupConvolutionBackpropData": partial(_convolution, leading=2, is_backwards=True),
    "LSTMSequence": _recurrent(4),
    "GRUSequence": _recurrent(3),
    "RNNSequence": _recurrent(3),
    "LSTMCell": _recurrent(3),
    "GRUCell": _recurrent(2),
    "RNNCell": _recurrent(2),
    "MatMul": _product,
    "ScaledDotProductAttention": _attention,
}
