"""Parameters, buffers, MACs and FLOPs of a traced graph, with a receipt of what was counted and what not.

Counted are convolutions, matrix products and einsums, from the shapes in the graph, before TensorFlow
optimises it: MACs are outputs x inputs of each, FLOPs 2 x MACs. That is the convention of the torch backend:
by it EfficientNetB0 at 224 has 0.39 GMACs. TensorFlow's profiler counts additions, activations, pooling, too.

Lies when: operators that multiply have no formula (the receipt names them), or loops run (their inside is not
counted)."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from laptime.backends._shared import Later
from laptime.measure.metrics import BUFFERS, FLOPS, MACS, PARAMETERS, TRAINABLE
from laptime.records.series import Series

tf = Later("tensorflow")
_CALLS = ("PartitionedCall", "StatefulPartitionedCall")
# Weights that are learnt by no gradient: statistics of normalisations, and state of random layers.
_BUFFER_NAMES = ("moving_mean", "moving_variance", "mean", "variance", "count", "seed_generator_state")
# Parts of operator names that do work of the kind that is counted, should one have no formula.
# fmt: off
_HEAVY = (
    "MatMul", "Conv", "RNN", "LSTM", "GRU", "FFT", "While", "XlaCallModule", "PyFunc", "Attention",
    "If", "Cholesky", "Svd", "Qr", "Eig", "MatrixInverse", "MatrixSolve", "MatrixTriangularSolve",
    "MatrixDeterminant", "MatrixExponential",
)
# fmt: on
_NOTHING = ("Const", "Placeholder", "NoOp", "Identity", "IdentityN", "ReadVariableOp", "Shape", "Convert")


def weights(variables: Iterable[Any]) -> list[Series]:
    """Parameters (frozen ones too), trainable ones and buffers: each variable once, numbers of elements."""
    counted: Counter[str] = Counter()
    for variable in {id(variable): variable for variable in variables}.values():
        number = math.prod(int(length) for length in variable.shape)
        name = variable.name.rpartition("/")[2].partition(":")[0]
        if variable.trainable:
            counted[TRAINABLE.tag] += number
        is_buffer = not variable.trainable and name.startswith(_BUFFER_NAMES)
        counted[BUFFERS.tag if is_buffer else PARAMETERS.tag] += number
    return [
        Series(metric=metric, samples=[float(counted[metric.tag])], probe="tensorflow")
        for metric in (PARAMETERS, TRAINABLE, BUFFERS)
    ]


def work(concrete: Any) -> tuple[list[Series], dict[str, Any]]:
    """MACs and FLOPs of a traced graph, with the receipt; no series, and the reason, if there are none."""
    receipt: dict[str, Any] = {
        "counter": f"shapes of the traced graph, tensorflow {tf.__version__}",
        "convention": "convolutions, matrix products and einsums; MACs = FLOPs / 2",
    }
    macs: Counter[str] = Counter()
    others: Counter[str] = Counter()
    unknown: Counter[str] = Counter()
    for operator in _flat(concrete):
        formula = _FORMULAS.get(operator.type)
        if formula is None:
            others[operator.type] += not operator.type.startswith(_NOTHING)
            continue
        try:
            macs[operator.type] += formula(operator)
        except (TypeError, ValueError):  # None in a product, or a shape of unknown rank
            unknown[operator.type] += 1
    uncounted = {name: number for name, number in sorted((others + unknown).items()) if number}
    doubtful = [name for name in uncounted if name in unknown or any(word in name for word in _HEAVY)]
    receipt |= {
        "counted": {name: 2 * number for name, number in macs.most_common()},
        "uncounted": uncounted,
        "doubtful": doubtful,
        "complete": not doubtful,
    }
    total = sum(macs.values())
    if not total:
        receipt["reason"] = (
            f"no operator with a formula and known shapes; {', '.join(doubtful)} may multiply"
            if doubtful
            else "no convolution, matrix product or einsum is in the graph"
        )
        return [], receipt
    return [
        Series(metric=MACS, samples=[float(total)], probe="graph"),
        Series(metric=FLOPS, samples=[2.0 * total], probe="graph"),
    ], receipt


def _flat(concrete: Any) -> Iterator[Any]:
    """The operators of a graph and of those that it calls, with the shapes that they are called with."""
    if not any(operator.type in _CALLS for operator in concrete.graph.get_operations()):
        return iter(concrete.graph.get_operations())
    # TensorFlow offers this nowhere else; its own converters are built on it. With variables as constants
    # called graphs can be put in place, and their shapes are known.
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    frozen = convert_variables_to_constants_v2(concrete, lower_control_flow=False).graph
    library = {each.signature.name: each for each in frozen.as_graph_def().library.function}
    return _operators(frozen, library)


def _operators(graph: Any, library: dict[str, Any]) -> Iterator[Any]:
    """Yield operators. Calls that remain are compiled by XLA; behind the first of them shapes may be open."""
    from tensorflow.python.framework.function_def_to_graph import function_def_to_graph

    for operator in graph.get_operations():
        called = library.get(operator.get_attr("f").name) if operator.type in _CALLS else None
        if called is None:
            yield operator
            continue
        called.ClearField("arg_attr")  # shapes from when it was saved, with an open batch
        shapes = [tensor.shape for tensor in operator.inputs]
        yield from _operators(function_def_to_graph(called, input_shapes=shapes), library)


def _shape(tensor: Any) -> list[int]:
    return list(tensor.shape.as_list())


def _convolution(operator: Any, *, used: int = -1, is_transposed: bool = False) -> int:
    """Outputs (transposed: inputs) x kernel of each, which is the dimensions of the weights up to `used`."""
    many = operator.inputs[2] if is_transposed else operator.outputs[0]
    return math.prod(_shape(many)) * math.prod(_shape(operator.inputs[1])[:used])


_transposed = partial(_convolution, is_transposed=True)  # a kernel is (spatial ..., outputs, inputs)


def _matrix(operator: Any) -> int:
    flag = "transpose_a" if operator.type == "MatMul" else "adj_x"
    summed = _shape(operator.inputs[0])[-2 if operator.get_attr(flag) else -1]
    return math.prod(_shape(operator.outputs[0])) * summed


def _einsum(operator: Any) -> int:
    """Product of the lengths of all labels, those behind an ellipsis from the right; 0 of a single input."""
    if len(operator.inputs) < 2:
        return 0
    lengths: dict[str, int] = {}
    terms = operator.get_attr("equation").decode().replace(" ", "").partition("->")[0].split(",")
    for term, tensor in zip(terms, operator.inputs, strict=True):
        sizes = _shape(tensor)
        left, _, right = term.partition("...")
        hidden = [f"...{i}" for i in range(len(sizes) - len(left) - len(right), 0, -1)]
        for label, length in zip([*left, *hidden, *right], sizes, strict=True):
            lengths[label] = max(length, lengths.get(label, 1))
    return math.prod(lengths.values())


_FORMULAS: dict[str, Callable[[Any], int]] = {
    "Conv1D": _convolution,  # a kernel is (spatial ..., inputs of a group, outputs)
    "Conv2D": _convolution,
    "Conv3D": _convolution,
    "DepthwiseConv2dNative": partial(_convolution, used=2),  # (height, width, inputs, multiplier)
    "Conv2DBackpropInput": _transposed,
    "Conv3DBackpropInputV2": _transposed,
    "MatMul": _matrix,
    "BatchMatMul": _matrix,
    "BatchMatMulV2": _matrix,
    "BatchMatMulV3": _matrix,
    "Einsum": _einsum,
}
