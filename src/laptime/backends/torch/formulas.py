"""FLOPs of operators for which `torch.utils.flop_counter` has no formula, from the shapes of a call.

    product                2 x multiply-accumulates, as there
    recurrent layer        2 x items x steps x elements of the weight matrices; packed: the steps of all items
    FFT                    5 N log2 N of a complex transform of N points, 2.5 N log2 N of a real one. Source:
                           Frigo and Johnson's benchFFT, https://www.fftw.org/speed/method.html
    quantized product      as of floats; quantizing and dequantizing are not counted

What is given are shapes, as `FlopCounterMode(custom_mapping=...)` hands them over: a tensor's arguments are
replaced by their sizes, `out_shape` is that of the result, everything else is as it was passed."""

from collections.abc import Callable, Sequence
from math import log2, prod
from typing import Any

from laptime.analysis import products
from laptime.analysis.products import Shape
from laptime.backends._shared import torch


def formulas(known: set[str]) -> dict[Any, Callable[..., int]]:
    """Formulas by operator: those of operators that this torch has and that are not `known` by name.

    The formula of `convolution_backward` is always here: torch's own (2.15 and before) leaves groups out, and
    tells 32 times the work for the gradient of the weights of a depthwise convolution of 32 channels."""
    found: dict[Any, Callable[..., int]] = {}
    for name, formula in _FORMULAS.items():
        namespace, _, operator = name.partition(".")
        # Asked of a namespace, not of torch: those of other packages come and go with their import.
        packet = getattr(getattr(torch.ops, namespace), operator, None)
        if packet is not None and (name not in known or formula is _convolution_backward):
            found[packet] = formula
    return found


def _convolution_backward(
    gradient: Shape, inputs: Shape, weight: Shape, *settings: Any, out_shape: Any = None, **named: Any
) -> int:
    """Each of the two gradients has the products of the forward pass."""
    from torch.utils.flop_counter import conv_flop_count

    _bias, _stride, _padding, _dilation, transposed, _output_padding, _groups, output_mask = settings
    each = int(conv_flop_count(list(inputs), list(weight), list(gradient), transposed=transposed))
    return each * (bool(output_mask[0]) + bool(output_mask[1]))


def _rnn(inputs: Shape, weights: Sequence[Shape], *rest: Any, **named: Any) -> int:
    """All layers and directions: (T, B, in), or (steps of all sequences, in) if they are packed.

    Weights are matrices (of projections, too), biases are not."""
    return 2 * prod(inputs[:-1]) * sum(prod(weight) for weight in weights if len(weight) == 2)


def _twice(formula: Callable[..., int]) -> Callable[..., int]:
    """Gradients of inputs and of weights: each has the products of the forward pass."""
    return lambda *args, **named: 2 * formula(*args, **named)


def _quantized_rnn(gates: int) -> Callable[..., int]:
    def flops(
        inputs: Shape, states: Any, params: Any, has_biases: bool, layers: int, *rest: Any, **_: Any
    ) -> int:
        """Count from sizes, as the weights are packed: the states are (layers x directions, B, hidden)."""
        state = states[0] if isinstance(states[0], list | tuple) else states
        hidden, directions = state[-1], state[0] // layers
        features = inputs[-1] + (layers - 1) * directions * hidden + layers * hidden
        return int(2 * prod(inputs[:-1]) * directions * gates * hidden * features)

    return flops


def _packed_convolution(inputs: Shape, packed: Any, *rest: Any, out_shape: Shape, **named: Any) -> int:
    return 2 * prod(out_shape) * int(prod(packed.unpack()[0].shape[1:]))


def _packed_conv_transpose(inputs: Shape, packed: Any, *rest: Any, **named: Any) -> int:
    return 2 * prod(inputs) * int(prod(packed.unpack()[0].shape[1:]))


def _deformable(inputs: Shape, weight: Shape, *rest: Any, out_shape: Shape, **named: Any) -> int:
    """The products of the convolution; where the offsets point to is interpolated, and not counted."""
    return 2 * prod(out_shape) * prod(weight[1:])


def _trilinear(
    one: Shape, two: Shape, three: Shape, *expand: Any, out_shape: Any = None, **named: Any
) -> int:
    """Two products: first `one` with `two`, then with `three` what is left of the sum.

    Each of the three lacks dimensions (`expand`), along which it is broadcast. For torch.nn.Bilinear, of (B,
    in1), (out, in1, in2), (B, in2): B x out x in1 x in2 and B x out x in2 multiply-accumulates."""
    lacks, summed = expand[:3], expand[3]
    sizes: dict[int, int] = {}
    for shape, lacking in zip((one, two, three), lacks, strict=True):
        rest = iter(shape)
        for dim in range(len(shape) + len(lacking)):
            sizes[dim] = max(sizes.get(dim, 1), 1 if dim in lacking else next(rest))
    first = prod(n for dim, n in sizes.items() if dim not in lacks[0] or dim not in lacks[1])
    second = prod(n for dim, n in sizes.items() if dim not in summed or dim not in lacks[2])
    return 2 * (first + second)


def _fft(each: float, *, of_result: bool = False) -> Callable[..., int]:
    """`each` x N log2 N. If real numbers come out, N is in the result: the input is half of it."""

    def flops(shape: Shape, dims: Sequence[int], *rest: Any, out_shape: Shape, **named: Any) -> int:
        points = out_shape if of_result else shape
        return round(each * prod(points) * log2(max(1, prod(points[dim] for dim in dims))))

    return flops


def _skip_first(formula: Callable[..., int]) -> Callable[..., int]:
    return lambda added, *args, **named: formula(*args, **named)


_ONE_FORMULA: dict[Callable[..., int], str] = {
    _rnn: "aten._cudnn_rnn aten.miopen_rnn",
    _twice(_rnn): "aten._cudnn_rnn_backward aten.miopen_rnn_backward",
    products.attention: "aten._scaled_dot_product_flash_attention_for_cpu"
    " aten._scaled_dot_product_fused_attention_overrideable aten._scaled_dot_product_attention_math_for_mps",
    products.matrix_vector: "aten.mv aten.dot aten.vdot",
    _skip_first(products.matrix_vector): "aten.addmv aten.addmv_",
    products.matrix_product: "aten._int_mm quantized.matmul",
    _skip_first(products.matrix_product): "aten.addbmm aten._addmm_activation aten.addmm_ aten.baddbmm_",
    lambda inputs, *weight, out_shape, **named: (
        2 * prod(inputs) * out_shape[-1]
    ): "aten._weight_int8pack_mm aten._weight_int4pack_mm aten._weight_int4pack_mm_for_cpu"
    " aten._dyn_quant_matmul_4bit mkldnn._linear_pointwise quantized.linear quantized.linear_relu"
    " quantized.linear_dynamic quantized.linear_relu_dynamic quantized.linear_dynamic_fp16"
    " quantized.linear_relu_dynamic_fp16 quantized.linear_leaky_relu quantized.linear_tanh",
}
"""Formulas of several operators."""
_FORMULAS: dict[str, Callable[..., int]] = {
    "aten.convolution_backward": _convolution_backward,
    "aten.mkldnn_rnn_layer": products.recurrent_layer,
    "aten.mkldnn_rnn_layer_backward": _twice(products.recurrent_layer),
    "aten._lstm_mps": lambda inputs, states, weights, *rest, **named: _rnn(inputs, weights),
    "aten.quantized_lstm": _quantized_rnn(4),
    "aten.quantized_gru": _quantized_rnn(3),
    "aten._trilinear": _trilinear,
    "aten._fft_c2c": _fft(5.0),
    "aten._fft_r2c": _fft(2.5),
    "aten._fft_c2r": _fft(2.5, of_result=True),
    "torchvision.deform_conv2d": _deformable,
    **{name: formula for formula, names in _ONE_FORMULA.items() for name in names.split()},
    **{
        f"quantized.conv{n}d{how}": _packed_convolution
        for n in (1, 2, 3)
        for how in ("", "_relu", "_dynamic")
    },
    **{
        f"quantized.conv_transpose{n}d{how}": _packed_conv_transpose
        for n in (1, 2, 3)
        for how in ("", "_dynamic")
    },
}
