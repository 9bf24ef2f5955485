"""FLOP and least bytes of one call of an operator, from the sizes and types of its inputs.

    products, convolutions, attention, recurrent layers   2 x multiply-accumulates (products.py)
    elementwise, normalisation, reduction                 one an element, at least
    bytes                                                 every input is read once, every output written once

Sources: `torch.utils.flop_counter`; `torch/csrc/profiler/util.cpp` (with_flops) for elementwise operators.
What the sizes do not say is not counted: an operator over a list of tensors, a product of complex numbers,
a convolution whose output nothing shows.

Lies when: a mask or a causal kernel skips work (it is counted); a convolution needs fewer multiplications
(Winograd, FFT); an input is expanded, and has fewer elements than its size says; the first convolution of a
network needs no gradient of its input (it is counted)."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeGuard

from laptime.analysis import operator_formulas as formulas
from laptime.analysis.operator_formulas import Tensor
from laptime.analysis.products import Shape
from laptime.records.overview import OperatorClass

_TYPES = {
    "float": ("float32", 4),
    "double": ("float64", 8),
    "c10::Half": ("float16", 2),
    "c10::BFloat16": ("bfloat16", 2),
    **dict.fromkeys(
        ("c10::Float8_e4m3fn", "c10::Float8_e5m2", "c10::Float8_e4m3fnuz", "c10::Float8_e5m2fnuz"),
        ("float8", 1),
    ),
    "c10::complex<float>": ("complex64", 8),
    "c10::complex<double>": ("complex128", 16),
    **dict.fromkeys(("long", "long int", "long long"), ("int64", 8)),
    "int": ("int32", 4),
    **dict.fromkeys(("short", "short int"), ("int16", 2)),
    **dict.fromkeys(("signed char", "c10::qint8"), ("int8", 1)),
    **dict.fromkeys(("unsigned char", "c10::quint8"), ("uint8", 1)),
    "bool": ("bool", 1),
}
"""Types as traces write those of tensors: name, and bytes of an element. Scalars have other words there."""


class Counted(NamedTuple):
    """Work of one call."""

    flop: int
    bytes: int
    dtype: str


def kind_of(name: str) -> OperatorClass | None:
    """The class of an operator, `aten::mm`; None for one that no class names."""
    row = _OPERATORS.get(_plain(name))
    return row[0] if row else None


def work(
    name: str, shapes: Sequence[object], types: Sequence[object], output: Shape | None = None
) -> Counted | None:
    """The work of one call; None if the sizes do not say it.
    shapes, types: of the inputs, as a trace has them: `[[64, 32], []]`, `["float", "Scalar"]`. output: shape
    of the result, for convolutions, whose inputs do not say it."""
    row = _OPERATORS.get(_plain(name))
    tensors = list(_tensors(shapes, types))
    if row is None or row[1] is None or not tensors:
        return None
    dtype = next((tensor.dtype for tensor in tensors if "float" in tensor.dtype), tensors[0].dtype)
    if any(tensor.dtype.startswith("complex") for tensor in tensors) and row[0] in PRODUCTS:
        return None
    try:
        counted = row[1](tensors, output)
    except (IndexError, ValueError):  # sizes that no call of this operator has
        return None
    return Counted(*counted, dtype) if counted else None


PRODUCTS: frozenset[OperatorClass] = frozenset(
    {"matmul", "convolution", "convolution backward", "attention", "recurrent"}
)
"""Classes whose FLOP can be what limits them."""


def output_of(convolution: Sequence[object], inputs: Sequence[object]) -> Shape | None:
    """The output of a convolution, if it is among the inputs of a later operator; None if it is not.
    convolution: shapes of its inputs: (N, C, *sizes), (out, C / groups, *kernel). inputs: shapes of the later
    operator's."""
    before, weight = [shape for shape in convolution if _is_shape(shape)][:2] or (None, None)
    if before is None or weight is None or len(before) != len(weight) or len(before) < 3:
        return None
    for shape in inputs:
        if not _is_shape(shape) or len(shape) != len(before) or shape[:2] != [before[0], weight[0]]:
            continue
        # Padding by more than the kernel would make outputs of nothing but padding.
        if all(0 < n <= m + k - 1 for n, m, k in zip(shape[2:], before[2:], weight[2:], strict=True)):
            return shape
    return None


def _plain(name: str) -> str:
    return name.removeprefix("aten::").removesuffix("_") if not name.endswith("__") else name


def _is_shape(shape: object) -> TypeGuard[list[int]]:
    return isinstance(shape, list) and bool(shape) and all(type(size) is int for size in shape)


def _tensors(shapes: Sequence[object], types: Sequence[object]) -> Iterator[Tensor]:
    for shape, kind in zip(shapes, types, strict=False):
        if isinstance(kind, str) and kind in _TYPES and (shape == [] or _is_shape(shape)):
            assert isinstance(shape, list)
            yield Tensor(shape, *_TYPES[kind])


_NAMES: dict[tuple[OperatorClass, formulas.Formula | None], str] = {
    ("matmul", formulas.matmul): "mm bmm matmul mv dot vdot _int_mm _scaled_mm",
    ("matmul", formulas.add_matmul): "addmm baddbmm addmv _addmm_activation",
    ("matmul", formulas.linear): "linear mkldnn_linear mkldnn::_linear_pointwise",
    ("matmul", None): "addbmm addr _grouped_mm _scaled_grouped_mm _weight_int8pack_mm _weight_int4pack_mm",
    ("convolution", formulas.convolution): "conv1d conv2d conv3d convolution _convolution cudnn_convolution"
    " miopen_convolution mkldnn_convolution cudnn_convolution_relu thnn_conv2d _slow_conv2d_forward"
    " conv_depthwise2d _conv_depthwise2d thnn_conv_depthwise2d miopen_depthwise_convolution slow_conv3d"
    " mkldnn::_convolution_pointwise",
    ("convolution", formulas.conv_transpose): "conv_transpose1d conv_transpose2d conv_transpose3d"
    " cudnn_convolution_transpose miopen_convolution_transpose",
    ("convolution backward", formulas.convolution_backward): "convolution_backward",
    ("convolution backward", formulas.input_first): "cudnn_convolution_backward miopen_convolution_backward"
    " mkldnn_convolution_backward",
    ("attention", formulas.attention): "scaled_dot_product_attention _scaled_dot_product_flash_attention"
    " _scaled_dot_product_efficient_attention _scaled_dot_product_cudnn_attention"
    " _scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_attention_math",
    ("attention", formulas.attention_backward): "_scaled_dot_product_flash_attention_backward"
    " _scaled_dot_product_efficient_attention_backward _scaled_dot_product_cudnn_attention_backward"
    " _scaled_dot_product_flash_attention_for_cpu_backward",
    ("attention", None): "_flash_attention_forward _efficient_attention_forward _flash_attention_backward"
    " _efficient_attention_backward flash_attn::_flash_attn_forward flash_attn::_flash_attn_backward"
    " flash_attn::_flash_attn_varlen_forward flash_attn::_flash_attn_varlen_backward vllm::unified_attention"
    " vllm::unified_attention_with_output",
    ("recurrent", formulas.recurrent): "mkldnn_rnn_layer",
    ("recurrent", None): "_cudnn_rnn _cudnn_rnn_backward miopen_rnn miopen_rnn_backward lstm gru",
    ("normalisation", formulas.like_first): "batch_norm _batch_norm_impl_index cudnn_batch_norm"
    " miopen_batch_norm native_batch_norm layer_norm native_layer_norm group_norm native_group_norm"
    " instance_norm rms_norm _fused_rms_norm softmax _softmax log_softmax _log_softmax"
    " cudnn_batch_norm_backward miopen_batch_norm_backward native_batch_norm_backward"
    " native_layer_norm_backward native_group_norm_backward _softmax_backward_data"
    " _log_softmax_backward_data",
    ("elementwise", formulas.elementwise): "add sub rsub mul div true_divide floor_divide remainder fmod neg"
    " abs sign reciprocal square sqrt rsqrt pow exp exp2 expm1 log log2 log10 log1p sin cos tan tanh atan"
    " erf sigmoid floor ceil round trunc clamp clamp_min clamp_max maximum minimum where lerp addcmul"
    " addcdiv masked_fill relu relu6 gelu silu mish elu celu selu leaky_relu hardtanh hardswish hardsigmoid"
    " softplus threshold native_dropout native_dropout_backward threshold_backward gelu_backward"
    " silu_backward sigmoid_backward tanh_backward elu_backward leaky_relu_backward hardtanh_backward"
    " hardswish_backward hardsigmoid_backward mish_backward softplus_backward bitwise_and bitwise_or"
    " bitwise_xor bitwise_not triu tril",
    ("elementwise", formulas.compared): "eq ne lt gt le ge logical_and logical_or logical_not logical_xor"
    " isnan isinf isfinite",
    ("elementwise", formulas.fill): "bernoulli normal uniform random exponential",
    ("reduction", formulas.read): "sum mean max min amax amin argmax argmin prod norm linalg_vector_norm var"
    " std var_mean all any logsumexp cumsum nll_loss_forward mse_loss max_pool2d max_pool2d_with_indices"
    " avg_pool2d adaptive_avg_pool2d _adaptive_avg_pool2d sort topk",
    ("reduction", formulas.pool_backward): "max_pool2d_with_indices_backward avg_pool2d_backward",
    ("embedding", formulas.lookup): "embedding",
    ("embedding", formulas.read): "embedding_dense_backward",
    ("embedding", None): "embedding_bag _embedding_bag _embedding_bag_backward _embedding_bag_dense_backward"
    " index_select gather scatter scatter_add index index_put _index_put_impl index_add nll_loss_backward",
    ("copy", formulas.copy): "copy",
    ("copy", formulas.fill): "fill zero",
    ("copy", None): "cat _cat stack split_with_sizes_copy repeat roll flip contiguous clone",
}
_OPERATORS = {name: row for row, names in _NAMES.items() for name in names.split()}
"""Class and formula by name, without `aten::` and the `_` of what works in place. Without a formula the
sizes do not tell the work."""
