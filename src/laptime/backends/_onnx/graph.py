"""Facts that an ONNX file states: opset, parameters, and the FLOPs of one call.

    Conv                 2 x outputs x weights of one output channel
    ConvTranspose        2 x inputs x weights of one input channel
    MatMul, Gemm         2 x outputs x length of the sum
    LSTM, GRU, RNN       2 x items x steps x elements of both weight matrices
    and their quantized and integer forms

MACs are FLOPs / 2, as everywhere in laptime. The graph is the one in the file, before a runtime optimizes it.

Lies when: nodes that multiply have no formula (the receipt names them), or shapes stay unknown."""

import copy
import math
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from laptime.backends._shared import Later
from laptime.kit.errors import TargetError

onnx = Later("onnx")

# Nodes that do work of the kind that is counted, but have no formula here.
_HEAVY = frozenset(
    {"Attention", "Einsum", "If", "Loop", "Scan", "DeformConv", "DFT", "STFT", "Det", "LinearAttention"}
)
_RECURRENT = frozenset({"LSTM", "GRU", "RNN"})
_CONVOLUTIONS = {"Conv": 1, "ConvInteger": 1, "QLinearConv": 3}  # place of the weights
_PRODUCTS = {"MatMul": 0, "MatMulInteger": 0, "QLinearMatMul": 0, "Gemm": 0}  # place of the first factor
Shapes = dict[str, tuple[int, ...]]


def read(path: Path) -> Any:
    """The file's ModelProto, without weights that lie in other files.
    Raises TargetError: it is not an ONNX file."""
    from google.protobuf.message import DecodeError

    try:
        return onnx.load(str(path), load_external_data=False)
    except DecodeError as error:
        raise TargetError(f"{path.name} is not an ONNX file", why=f"it cannot be parsed: {error}") from error


def facts(model: Any) -> dict[str, Any]:
    return {
        "opset": {each.domain or "ai.onnx": each.version for each in model.opset_import},
        "ir_version": model.ir_version,
        "producer": f"{model.producer_name} {model.producer_version}".strip(),
        "nodes": len(model.graph.node),
    }


def dtypes(model: Any) -> dict[str, int]:
    name = onnx.TensorProto.DataType.Name
    counts = Counter(
        _DTYPES.get(word := name(each.data_type), word.lower()) for each in model.graph.initializer
    )
    return dict(counts)


_DTYPES = {"FLOAT": "float32", "DOUBLE": "float64"}


def parameters(model: Any) -> int:
    """Elements of all weights; whole numbers of 64 bits are shapes and indices, and left out."""
    return sum(
        math.prod(each.dims)
        for each in model.graph.initializer
        if each.data_type not in (onnx.TensorProto.INT64, onnx.TensorProto.BOOL)
    )


PARAMETERS = "all weights of the graph, running statistics among them"


def counts(model: Any, sizes: Mapping[str, tuple[int, ...]]) -> tuple[dict[str, float], dict[str, Any]]:
    """Values by tag of a metric for one call with inputs of these shapes, and the receipt."""
    shapes = _shapes(model, sizes)
    counted: Counter[str] = Counter()
    uncounted: Counter[str] = Counter()
    doubtful = set()
    for node in model.graph.node:
        work = _work(node, shapes) if node.domain in ("", "ai.onnx") else None
        if work:
            counted[node.op_type] += work
            continue
        uncounted[node.op_type] += 1
        counts = {*_CONVOLUTIONS, *_PRODUCTS, *_RECURRENT, "ConvTranspose"}
        if node.op_type in counts or node.op_type in _HEAVY or node.domain not in ("", "ai.onnx"):
            doubtful.add(node.op_type)
    nothing = "no matrix product or convolution of known shape is in the graph"
    values, receipt = sum_up("shapes of the ONNX graph", counted, uncounted, doubtful, nothing)
    return {"params/all": float(parameters(model)), **values}, {**receipt, "parameters": PARAMETERS}


def sum_up(
    counter: str, counted: Counter[str], uncounted: Counter[str], doubtful: set[str], nothing: str
) -> tuple[dict[str, float], dict[str, Any]]:
    """FLOPs and MACs, and the receipt, of FLOPs by kind of node. nothing: the reason if there are none."""
    receipt: dict[str, Any] = {
        "counter": counter,
        "convention": "matrix products, convolutions, recurrent layers; MACs = FLOPs / 2",
        "counted": dict(counted.most_common()),
        "uncounted": dict(uncounted.most_common()),
        "doubtful": sorted(doubtful),
        "complete": not doubtful,
    }
    if total := sum(counted.values()):
        return {"macs": total / 2, "flops": float(total)}, receipt
    return {}, {**receipt, "reason": nothing}


def _work(node: Any, shapes: Shapes) -> int | None:
    def shape(names: Any, at: int) -> tuple[int, ...] | None:
        return shapes.get(names[at]) if at < len(names) else None

    kind, output = node.op_type, shape(node.output, 0)
    if kind in _CONVOLUTIONS:
        weights = shape(node.input, _CONVOLUTIONS[kind])
        return 2 * math.prod(output) * math.prod(weights[1:]) if output and weights else None
    if kind == "ConvTranspose":
        first, weights = shape(node.input, 0), shape(node.input, 1)
        return 2 * math.prod(first) * math.prod(weights[1:]) if first and weights else None
    if kind in _RECURRENT:
        sequence, *both = (shape(node.input, at) for at in range(3))
        elements = sum(math.prod(each) for each in both if each)
        return 2 * math.prod(sequence[:-1]) * elements if sequence and all(both) else None
    if kind in _PRODUCTS:
        first = shape(node.input, _PRODUCTS[kind])
        if output is None or not first:
            return None
        is_turned = any(each.name == "transA" and each.i for each in node.attribute)
        return 2 * math.prod(output) * first[0 if is_turned else -1]
    return None


def _shapes(model: Any, sizes: Mapping[str, tuple[int, ...]]) -> Shapes:
    fixed = copy.deepcopy(model)
    for each in fixed.graph.input:
        if each.name in sizes:
            dims = each.type.tensor_type.shape
            dims.Clear()
            for size in sizes[each.name]:
                dims.dim.add().dim_value = size
    # Sizes written down for another batch contradict those that are asked for.
    del fixed.graph.value_info[:]
    for each in fixed.graph.output:
        each.type.tensor_type.ClearField("shape")
    inferred = onnx.shape_inference.infer_shapes(fixed, data_prop=True).graph
    shapes: Shapes = {each.name: tuple(each.dims) for each in fixed.graph.initializer}
    for each in [*inferred.input, *inferred.value_info, *inferred.output]:
        dims = each.type.tensor_type.shape.dim
        if all(dim.HasField("dim_value") for dim in dims):
            shapes[each.name] = tuple(dim.dim_value for dim in dims)
    return shapes
