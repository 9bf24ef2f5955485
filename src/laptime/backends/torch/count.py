"""Parameters, buffers, MACs and FLOPs, with a receipt of what was counted and what was not.

FLOPs come from `torch.utils.flop_counter` and, for operators that it has no formula for, from `formulas`:
one eager call runs, and each operator with a formula adds 2 x m x n x k (matrix products), 2 x outputs x
inputs of each (convolutions, recurrent layers), both products of attention, 5 N log2 N (FFTs). MACs are
FLOPs / 2. By that convention EfficientNet-B0 at 224 has 0.386 GMACs and 0.77 GFLOPs.

An operator without a formula that is not known to be light (`light`) makes the count incomplete: what is told
is then less than what is done, and every report says "at least".

Lies when: masks skip work; or kernels are started past PyTorch's dispatcher (Triton, extensions that register
no operator, NumPy, other threads), which nothing here can see.

The part of a call's work that no other machine or library can leave out, for bounds (`pricing/bounds.py`).

Told are FLOPs by dtype of dense matrix products, and of convolutions as if their kernels were 1 x 1; and the
bytes of the parameters that these read. Everything else counts as nothing, so the sum is a lower bound.

Operators that by convention are no work: what they do is neither counted nor missed.

Elementwise operations, sums and other reductions, normalisations, softmax, pooling, interpolation, lookups,
losses, random numbers, sorting, copies. They are told here, and whatever is not is doubted: an operator that
this list does not know makes a count incomplete, a new one of torch's, too, until somebody has looked at it.

Lies when: a model is made of little else; its elementwise operations then are its work."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from laptime.backends._shared import torch
from laptime.backends.torch import tensors
from laptime.backends.torch.formulas import formulas
from laptime.backends.torch.place import memory_exhausted
from laptime.measure.metrics import BUFFERS, FLOPS, MACS, PARAMETERS, TRAINABLE
from laptime.records.series import Series

_CONVENTION = (
    "matrix products, convolutions, attention, recurrent layers, FFTs (5 N log2 N); MACs = FLOPs / 2; "
    "not counted: elementwise operations, sums, normalisations, pooling, interpolation, lookups"
)


def count(
    modules: list[torch.nn.Module], call: Callable[[], Any], *, batch: int, grad: bool = False
) -> tuple[list[Series], dict[str, Any]]:
    """Series and receipt; without MACs and FLOPs, and with the reason, where counting fails. modules: for
    parameters and buffers. call: one eager call, of `batch` items. grad: it needs gradients: it is a training
    step."""
    series, receipt = _parameters(modules)
    flops, counted = _flops(call, grad=grad, parameters=[p for part in modules for p in part.parameters()])
    receipt.update(counted, batch=batch)
    if flops is not None:
        probe = "flop_counter"
        series.append(Series(metric=MACS, samples=[flops / 2], probe=probe))
        series.append(Series(metric=FLOPS, samples=[float(flops)], probe=probe))
    return series, receipt


def _parameters(modules: list[torch.nn.Module]) -> tuple[list[Series], dict[str, Any]]:
    parameters = _unique(p for module in modules for p in module.parameters())
    buffers = _unique(b for module in modules for b in module.buffers())
    packed = sum(_sum_packed(part) for module in modules for part in module.modules())
    series = [
        Series(metric=metric, samples=[float(number)], probe="torch")
        for metric, number in (
            (PARAMETERS, sum(p.numel() for p in parameters) + packed),
            (TRAINABLE, sum(p.numel() for p in parameters if p.requires_grad)),
            (BUFFERS, sum(b.numel() for b in buffers)),
        )
    ]
    if not modules:
        return [], {"parameters": "the model is a plain function: it holds no module that could be seen"}
    return series, ({"packed_parameters": packed} if packed else {})


def _unique(tensors: Iterable[Any]) -> list[Any]:
    """Each tensor once, however many modules share it; those without a shape yet left out."""
    is_lazy = torch.nn.parameter.is_lazy
    return list({id(tensor): tensor for tensor in tensors if not is_lazy(tensor)}.values())


def _sum_packed(module: Any) -> int:
    """Weights of a quantized layer, which are behind methods and no parameters."""
    if not callable(getattr(module, "weight", None)):
        return 0
    bias = module.bias() if callable(getattr(module, "bias", None)) else None
    return int(module.weight().numel()) + (int(bias.numel()) if bias is not None else 0)


def _flops(
    call: Callable[[], Any], *, grad: bool, parameters: list[Any]
) -> tuple[int | None, dict[str, Any]]:
    from torch.utils.flop_counter import FlopCounterMode, flop_registry

    known = {str(operator) for operator in flop_registry}
    counter = FlopCounterMode(display=False, custom_mapping=formulas(known))
    try:
        mode = torch.enable_grad() if grad else torch.no_grad()
        with torch.inference_mode(False), mode, _slow_path(), _operators(parameters) as ran, counter:
            call()
    except Exception as error:
        if memory_exhausted(error):
            raise
        return None, {
            "reason": f"counting failed: {type(error).__name__}: {str(error).partition(chr(10))[0]}"
        }
    registered = {str(operator) for operator in counter.flop_registry}
    told = {str(op): int(n) for op, n in counter.get_flop_counts().get("Global", {}).items()}
    counted = {name: number for name, number in told.items() if name not in ran.sparse}
    uncounted = {name: calls for name, calls in sorted(ran.calls.items()) if name not in registered}
    doubtful = [name for name in uncounted if name not in ran.light]
    doubtful += [f"{name} (of sparse tensors)" for name in sorted(ran.sparse & registered)]
    doubtful += [
        f"{name} (of complex numbers, counted as real ones)" for name in sorted(ran.complex & {*counted})
    ]
    receipt: dict[str, Any] = {
        "counter": f"torch.utils.flop_counter of torch {torch.__version__}, and laptime's formulas",
        "convention": _CONVENTION,
        "counted": dict(sorted(counted.items(), key=lambda item: -item[1])),
        "uncounted": uncounted,
        "doubtful": doubtful,
        "complete": not doubtful,
        "least": ran.least.sum_up(),
    }
    total = sum(counted.values())
    if total == 0:
        receipt["reason"] = (
            f"no operator with a formula ran; {', '.join(doubtful)} may multiply"
            if doubtful
            else "no matrix product, convolution, attention, recurrent layer or FFT ran"
        )
        return None, receipt
    return total, receipt


@contextmanager
def _slow_path() -> Iterator[None]:
    """torch.nn.MultiheadAttention without its fused path, for which no formula exists; flex_attention not
    compiled, as what is compiled cannot be looked into."""
    was_on = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    flex: Any = sys.modules.get("torch.nn.attention.flex_attention")
    compiles = getattr(flex, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", None)
    if compiles is not None:
        flex._FLEX_ATTENTION_DISABLE_COMPILE_DEBUG = True
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(was_on)
        if compiles is not None:
            flex._FLEX_ATTENTION_DISABLE_COMPILE_DEBUG = compiles


@dataclass
class Ran:
    """The operators that ran during a call, by name."""

    least: LeastWork  # what no machine can leave out of them
    calls: Counter[str] = field(default_factory=Counter)  # how often each did
    light: set[str] = field(default_factory=set)  # those that are no work by convention
    # those that were given a sparse tensor, of which a formula sees the outer shape only
    sparse: set[str] = field(default_factory=set)
    # those that returned complex numbers, whose product is four of real ones. FFTs count right.
    complex: set[str] = field(default_factory=set)

    def add(self, func: Any, inputs: Any, output: Any) -> None:
        name = str(getattr(func, "overloadpacket", func))
        self.calls[name] += 1
        self.least.add(name, inputs, output)
        if is_light(func):
            self.light.add(name)
        elif any(tensor.layout != torch.strided for tensor in tensors.tensors(inputs)):
            self.sparse.add(name)
        elif "_fft_" not in name and any(tensor.is_complex() for tensor in tensors.tensors(output)):
            self.complex.add(name)


@contextmanager
def _operators(parameters: list[Any]) -> Iterator[Ran]:
    """Calls of each operator that runs inside, composite ones taken apart first by the counter above it."""
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils.flop_counter import _FlopCounterMode

    ran = Ran(LeastWork(p for p in parameters if not torch.nn.parameter.is_lazy(p)))

    class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call, unused-ignore]
        supports_higher_order_operators = True  # flex_attention

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            output = func(*args, **(kwargs or {}))
            ran.add(func, args, output)
            return output

    for mode in (Recorder, _FlopCounterMode):
        dispatch = getattr(mode.__torch_dispatch__, "__wrapped__", None)
        if dispatch is not None and "torch._dynamo" not in sys.modules:
            dispatch.__dynamo_disable = dispatch  # else its first call imports the compiler: 2 s
    with Recorder():  # type: ignore[no-untyped-call, unused-ignore]
        yield ran


# Least work.


class LeastWork:
    """Adds up what runs. parameters: of the model; a plain tensor is no weight."""

    def __init__(self, parameters: Iterable[Any]) -> None:
        self._parameters = {parameter.untyped_storage().data_ptr() for parameter in parameters}
        self._flops: Counter[str] = Counter()
        self._weights: dict[int, int] = {}

    def add(self, name: str, args: Any, output: Any) -> None:
        formula = _FORMULAS.get(name)
        if formula is None:
            return
        operands, flops = formula(args, output)
        # Zeros, or parts, may be left out; or what it is made of is not there.
        if any(each.layout != torch.strided or each.is_complex() or each.is_meta for each in operands):
            return
        self._flops[str(operands[0].dtype).removeprefix("torch.")] += flops
        for operand in operands:
            storage = operand.untyped_storage()
            if storage.data_ptr() in self._parameters:
                read = min(operand.numel() * operand.element_size(), storage.nbytes())
                self._weights[storage.data_ptr()] = max(read, self._weights.get(storage.data_ptr(), 0))

    def sum_up(self) -> dict[str, Any]:
        return {"flops": dict(self._flops), "weights": sum(self._weights.values())}


def _mm(args: Any, output: Any) -> tuple[list[Any], int]:
    left, right = args[0], args[1]
    return [left, right], 2 * output.numel() * left.shape[-1]


def _convolution(args: Any, output: Any) -> tuple[list[Any], int]:
    inputs, weight, transposed = args[0], args[1], args[6]
    places = inputs if transposed else output
    return [inputs, weight], 2 * places.numel() * weight.shape[1]


def _convolution_backward(args: Any, output: Any) -> tuple[list[Any], int]:
    gradient, inputs, weight, transposed, mask = args[0], args[1], args[2], args[7], args[10]
    places = inputs if transposed else gradient
    return [gradient, inputs, weight], 2 * places.numel() * weight.shape[1] * (bool(mask[0]) + bool(mask[1]))


_FORMULAS: dict[str, Callable[[Any, Any], tuple[list[Any], int]]] = {
    "aten.mm": _mm,
    "aten.addmm": lambda args, output: _mm(args[1:], output),
    "aten.linear": _mm,
    "aten.convolution": _convolution,
    "aten.convolution_backward": _convolution_backward,
}


# Operators that are no work.


_FAMILIES = re.compile(
    # elementwise, if torch's tags do not say so
    r"(add|mul|cat)(_relu)?(_scalar)?(_relu)?|abs|rsub|floor_divide|heaviside|gcd|lcm|polar|complex|eq|ne|ge|gt|le|lt"
    r"|(relu|leaky_relu|rrelu_with_noise|prelu|prelu_kernel|elu|celu|gelu|silu|mish|glu|sigmoid|log_sigmoid)6?(_forward)?"
    r"|relu6|hard(swish|sigmoid|tanh|shrink)|soft(plus|shrink)|threshold|clamp|nan_to_num|thnn_fused_\w+_cell(_backward_impl)?"
    r"|foreach_(?!mm)\w+|amp_\w+|fused_(adam\w*|sgd|adagrad|dropout|sdp_choice|rms_norm|moving_avg\w*)"
    # sums, and what else makes few numbers of many
    r"|sum|nansum|mean|var|std|(var|std)_mean|prod|max|min|amax|amin|aminmax|argmax|argmin|median|nanmedian|mode"
    r"|all|any|trace|dist|norm|native_norm|renorm|logsumexp|linalg_vector_norm|count_nonzero|bincount|hist\w+"
    r"|(log)?cum\w+|segment_reduce|((cudnn|miopen|native|quantized)_)?(batch|layer|group|instance|rms)_norm\w*"
    r"|weight_norm_interface|(safe_|log_|masked_|sparse_|sparse_log_)?softmax|\w+_loss\w*|binary_cross_entropy\w*"
    # pooling, interpolation, lookups
    r"|\w*(pool[123]d|pad[123]d|pad_nd)\w*|upsample\w+|(cudnn_)?grid_sampler\w*|(cudnn_)?affine_grid\w*|im2col|col2im"
    r"|pixel_(un)?shuffle|channel_shuffle|embedding\w*|(ps_)?roi_\w+|nms"
    # random numbers
    r"|transform_bias_rescale_qkv|(native_)?dropout|rand\w*|bernoulli|multinomial|normal|uniform|exponential|log_normal|geometric|poisson|cauchy"
    r"|philox_\w+|cudnn_init_dropout_state"
    # sorting, picking, joining, copying, making, asking
    r"|sort|argsort|topk|kthvalue|unique\w*|nonzero\w*|searchsorted|bucketize|isin|where|equal|allclose|is_\w+|item"
    r"|index\w*|gather|scatter\w*|select\w*|slice\w*|narrow|masked_\w+|take\w*|put|diag\w*|block_diag"
    r"|tri[lu](_indices)?|concat|stack|chunk_cat|split\w*|unbind|repeat\w*|tile|roll|flip|rot90|unfold\w*|as_strided\w*"
    r"|resize\w*|set|view\w*|reshape\w*|permute|transpose|t|expand|squeeze|unsqueeze|detach|alias|lift\w*|pin_memory"
    r"|to_\w+|\w*copy\w*|clone|contiguous|fill\w*|zeros?(_like)?|ones(_like)?|full\w*|empty\w*|new_\w+|eye|arange|range"
    r"|linspace|logspace|\w+_window|scalar_tensor|sparse_(coo|compressed)_tensor\w*|sparse_dim|dense_dim|nnz|coalesced?"
    r"|values|\w*indices|has_\w+|local_scalar_dense|(functional_)?assert\w*|sym_\w+|linalg_check_errors|record_stream"
    r"|validate_\w+|nested_\w+|pack_padded_sequence|pad_packed_sequence|cudnn_rnn_flatten_weight"
    # to and from whole numbers
    r"|(de|fake_)?quantize(_\w+)?|quantized_max_pool\w+|q_\w+|int_repr|choose_qparams\w*|make_quantized_cell_params\w*"
    r"|(conv|linear|embedding)\w*_(un|pre)pack(?!ed)\w*"
)
_SILENT = ("prim", "prims", "profiler", "c10d", "c10d_functional", "_c10d_functional", "rngprims")
_KNOWN = ("aten", "quantized", "torchvision", "quantized_decomposed")


def is_light(operator: Any) -> bool:
    """Whether an operator's call (an OpOverload) is none of the work that is counted."""
    tags = getattr(operator, "tags", ())
    if torch.Tag.pointwise in tags or getattr(operator, "is_view", False):
        return True
    namespace, _, name = str(getattr(operator, "overloadpacket", operator)).partition(".")
    if namespace in _SILENT:
        return True
    stem = re.sub(r"^_?(unsafe_)?|(_backward(_data|_out)?|_out)?_?$", "", name)
    return namespace in _KNOWN and _FAMILIES.fullmatch(stem) is not None
