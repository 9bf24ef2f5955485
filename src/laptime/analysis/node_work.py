"""FLOP and least bytes of one node of a graph of ONNX or OpenVINO, from the shapes of its inputs and outputs.

    products, convolutions, attention   2 x multiply-accumulates (products.py)
    elementwise, normalisation          one an element of the output, at least
    reduction                           one an element of the input, at least
    bytes                               every input is read once, every output written once

What the shapes do not say is not counted: recurrent layers, attention in one node of ONNX Runtime, products
of packed weights of few bits. Names are those of ONNX, of ONNX Runtime's own operators and of OpenVINO's CPU
plugin. Source: the operators' definitions (onnx.ai/onnx/operators; ONNX Runtime's ContribOperators.md).

Lies when: as operator_work; weights are packed if the runtime does not show their shape, and are padded."""

from collections.abc import Callable, Sequence
from functools import partial
from math import prod

from laptime.analysis import products
from laptime.analysis.operator_formulas import Tensor
from laptime.analysis.operator_work import Counted
from laptime.records.overview import OperatorClass

Tensors = Sequence[Tensor]


def kind_of(op: str) -> OperatorClass:
    """The class of an operator; `other` for one that no class names."""
    return _NODES[op][0] if op in _NODES else "other"


def work(op: str, inputs: Tensors, outputs: Tensors) -> Counted | None:
    """The work of one call; None if the shapes do not say it.
    op: `Conv`, `FullyConnected` ... inputs, outputs: those whose shapes are known, in order; weights may be
    missing."""
    count = _NODES[op][1] if op in _NODES else None
    try:
        counted = count(inputs, outputs) if count and inputs and outputs else None
    except (IndexError, ValueError):  # sizes that no call of this operator has
        return None
    if counted is None:
        return None
    moved, flop = counted
    first = inputs[0].dtype
    is_integer = any(part in op for part in ("QLinear", "Integer", "DynamicQuantize"))
    return Counted(flop, moved, "int8" if is_integer or first in ("int8", "uint8") else first)


def _bytes(inputs: Tensors, outputs: Tensors) -> int:
    return sum(each.bytes for each in (*inputs, *outputs))


def _matmul(inputs: Tensors, outputs: Tensors) -> tuple[int, int]:
    """Bytes and FLOP; a weight that is not shown is as large as the product needs."""
    data, output = inputs[0], outputs[0]
    inner = data.shape[-1]
    if len(data.shape) == len(output.shape) == 2 and data.shape[0] != output.shape[0]:
        inner = data.shape[0]  # transposed
    flop = 2 * prod(output.shape) * inner
    seen = any(len(each.shape) > 1 and inner in each.shape for each in inputs[1:])
    hidden = 0 if seen else inner * output.shape[-1] * data.size
    return _bytes(inputs, outputs) + hidden, flop


def _convolution(inputs: Tensors, outputs: Tensors, *, transposed: bool = False) -> tuple[int, int] | None:
    places = (inputs if transposed else outputs)[0].shape
    rank = len(inputs[0].shape)
    for each in inputs[1:]:
        is_sum = list(each.shape) == list(outputs[0].shape)  # what a fused addition takes in
        if rank >= 3 and len(each.shape) in (rank, rank + 1) and not is_sum:
            kernel = each.shape[len(each.shape) - rank :]  # groups are the first size where OpenVINO has them
            return _bytes(inputs, outputs), products.convolution(places, kernel)
    return None


def _attention(inputs: Tensors, outputs: Tensors) -> tuple[int, int]:
    query, key, value = (each.shape for each in inputs[:3])
    if not len(query) == len(key) == len(value) == 4:
        raise ValueError("no heads")
    return _bytes(inputs[:4], outputs), products.attention(query, key, value)


def _each_output(inputs: Tensors, outputs: Tensors) -> tuple[int, int]:
    return _bytes(inputs, outputs), sum(prod(output.shape) for output in outputs)


def _each_input(inputs: Tensors, outputs: Tensors) -> tuple[int, int]:
    return _bytes(inputs, outputs), prod(inputs[0].shape)


def _move(inputs: Tensors, outputs: Tensors) -> tuple[int, int]:
    """Return the bytes written, and as many read: a slice does not read all of its input."""
    written = _bytes((), outputs)
    return written + min(written, _bytes(inputs, ())), 0


Count = Callable[[Tensors, Tensors], "tuple[int, int] | None"]
_NAMES: dict[tuple[OperatorClass, Count | None], str] = {
    ("matmul", _matmul): "MatMul Gemm FusedMatMul FusedGemm TransposeMatMul MatMulInteger QLinearMatMul"
    " QGemm MatMulIntegerToFloat DynamicQuantizeMatMul FullyConnected",
    ("matmul", None): "MatMulNBits MatMulBnb4 GatherMatmul Einsum",
    ("convolution", _convolution): "Conv FusedConv NhwcFusedConv QLinearConv ConvInteger Convolution",
    ("convolution", partial(_convolution, transposed=True)): "ConvTranspose Deconvolution",
    ("attention", _attention): "ScaledDotProductAttention",
    ("attention", None): "Attention MultiHeadAttention QAttention GroupQueryAttention PackedAttention MHA"
    " ScaledDotProductAttentionWithKVCache PagedAttention",
    ("recurrent", None): "LSTM GRU RNN DynamicQuantizeLSTM LSTMCell GRUCell RNNCell LSTMSequence GRUSequence"
    " RNNSequence RNNSeq",
    ("normalisation", _each_output): "BatchNormalization LayerNormalization SimplifiedLayerNormalization"
    " SkipLayerNormalization SkipSimplifiedLayerNormalization InstanceNormalization GroupNormalization"
    " GroupNorm Softmax LogSoftmax LpNormalization LRN MVN NormalizeL2 RMS RMSNorm RMSNormalization"
    " QLinearSoftmax",
    ("elementwise", _each_output): "Add Sub Mul Div Pow Mod Neg Abs Sqrt Reciprocal Exp Log Erf Sin Cos Tanh"
    " Sigmoid Relu LeakyRelu PRelu Elu Selu Celu Gelu FastGelu BiasGelu QuickGelu Silu Mish HardSwish"
    " HardSigmoid Softplus Clip Floor Ceil Round Sign Min Max Mean Sum Where Not And Or Xor Equal Greater"
    " Less GreaterOrEqual LessOrEqual IsNaN IsInf QLinearAdd QLinearMul QLinearSigmoid QLinearLeakyRelu"
    " Eltwise Math Select FakeQuantize",
    ("reduction", _each_input): "MaxPool AveragePool GlobalAveragePool GlobalMaxPool"
    " QLinearGlobalAveragePool QLinearAveragePool ReduceMean ReduceSum ReduceMax ReduceMin ReduceProd"
    " ReduceL2 ReduceSumSquare ReduceLogSumExp QLinearReduceMean ArgMax ArgMin TopK CumSum Pooling"
    " AdaptivePooling Reduce",
    ("embedding", _move): "Gather GatherElements GatherND GatherNd",
    ("embedding", None): "ScatterND ScatterElements EmbedLayerNormalization EmbeddingBag ScatterUpdate",
    ("copy", _move): "Reorder ReorderInput ReorderOutput Transpose Concat Split Slice StridedSlice Pad"
    " Expand Tile Cast Convert QuantizeLinear DequantizeLinear Concatenation QLinearConcat DepthToSpace"
    " SpaceToDepth Broadcast Roll ShuffleChannels",
    ("copy", None): "Reshape Flatten Squeeze Unsqueeze Identity DynamicQuantizeLinear MemoryInput",
    ("other", _each_output): "Resize Upsample Interpolate",
    ("fused", _move): "Subgraph",
}
_NODES = {name: row for row, names in _NAMES.items() for name in names.split()}
"""Class and formula by name; without a formula the shapes do not tell the work. A subgraph of OpenVINO is
several operators in one kernel: its bytes are known, its FLOP are not."""
