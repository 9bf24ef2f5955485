"""Parameters, buffers, MACs and FLOPs, with a receipt of what was counted and what was not.

FLOPs come from `torch.utils.flop_counter`: one eager call runs, and each operator with a formula adds
2 x m x n x k (matrix products), 2 x outputs x inputs of each (convolutions), both products of attention.
MACs are FLOPs / 2. By that convention EfficientNet-B0 at 224 has 0.386 GMACs and 0.77 GFLOPs.

Lies when: operators that multiply have no formula (the receipt names them), or masks skip work.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from laptime.backends.torch.errors import memory_exhausted
from laptime.measure.metrics import BUFFERS, FLOPS, MACS, PARAMETERS, TRAINABLE
from laptime.records.series import Series

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch

# Words in names of aten operators that do work of the kind that is counted, should one have no formula.
_HEAVY = (
    "mm",
    "matmul",
    "conv",
    "linear",
    "attention",
    "rnn",
    "lstm",
    "gru",
    "fft",
    "bilinear",
    "mv",
    "dot",
    "einsum",
    "transformer_encoder",
)
_NOT_HEAVY = ("upsample", "norm", "_to_", "command")


def count(
    modules: list[torch.nn.Module], call: Callable[[], Any], *, batch: int, grad: bool = False
) -> tuple[list[Series], dict[str, Any]]:
    """Series and receipt; without MACs and FLOPs, and with the reason, where counting fails.

    Args:
        modules: parts of the model, for parameters and buffers.
        call: one eager call.
        batch: items in that call.
        grad: the call needs gradients: it is a training step.
    """
    series, receipt = _parameters(modules)
    flops, counted = _flops(call, grad=grad)
    receipt.update(counted, batch=batch)
    if flops is not None:
        probe = "flop_counter"
        series.append(Series(metric=MACS, samples=[flops / 2], probe=probe))
        series.append(Series(metric=FLOPS, samples=[float(flops)], probe=probe))
    return series, receipt


def _parameters(modules: list[torch.nn.Module]) -> tuple[list[Series], dict[str, Any]]:
    parameters = _unique(p for module in modules for p in module.parameters())
    buffers = _unique(b for module in modules for b in module.buffers())
    packed = sum(_packed(part) for module in modules for part in module.modules())
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
    import torch

    is_lazy = torch.nn.parameter.is_lazy
    return list({id(tensor): tensor for tensor in tensors if not is_lazy(tensor)}.values())


def _packed(module: Any) -> int:
    """Weights of a quantized layer, which are behind methods and no parameters."""
    if not callable(getattr(module, "weight", None)):
        return 0
    bias = module.bias() if callable(getattr(module, "bias", None)) else None
    return int(module.weight().numel()) + (int(bias.numel()) if bias is not None else 0)


def _flops(call: Callable[[], Any], *, grad: bool) -> tuple[int | None, dict[str, Any]]:
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    backward: Any = torch.ops.aten.convolution_backward
    counter = FlopCounterMode(display=False, custom_mapping={backward: _convolution_backward})
    try:
        mode = torch.enable_grad() if grad else torch.no_grad()
        with torch.inference_mode(False), mode, _slow_path(), _operators() as ran, counter:
            call()
    except Exception as error:
        if memory_exhausted(error):
            raise
        return None, {
            "reason": f"counting failed: {type(error).__name__}: {str(error).partition(chr(10))[0]}"
        }
    registered = {str(operator) for operator in counter.flop_registry}
    counted = {str(op): int(n) for op, n in counter.get_flop_counts().get("Global", {}).items()}
    uncounted = {name: calls for name, calls in sorted(ran.items()) if name not in registered}
    doubtful = [name for name in uncounted if _is_heavy(name)]
    receipt: dict[str, Any] = {
        "counter": f"torch.utils.flop_counter of torch {torch.__version__}",
        "convention": "matrix products, convolutions and attention; MACs = FLOPs / 2",
        "counted": dict(sorted(counted.items(), key=lambda item: -item[1])),
        "uncounted": uncounted,
        "doubtful": doubtful,
        "complete": not doubtful,
    }
    total = sum(counted.values())
    if total == 0:
        receipt["reason"] = (
            f"no operator with a formula ran; {', '.join(doubtful)} may multiply"
            if doubtful
            else "no matrix product, convolution or attention ran"
        )
        return None, receipt
    return total, receipt


def _convolution_backward(
    gradient: Any, inputs: Any, weight: Any, *settings: Any, out_shape: Any = None, **named: Any
) -> int:
    """FLOPs of a convolution's gradients, from shapes: each of the two has the products of the forward pass.

    torch's own formula (2.15 and before) leaves groups out of account: it tells 32 times the work for the
    gradient of the weights of a depthwise convolution of 32 channels.
    """
    from torch.utils.flop_counter import conv_flop_count

    _bias, _stride, _padding, _dilation, transposed, _output_padding, _groups, output_mask = settings
    each = int(conv_flop_count(list(inputs), list(weight), list(gradient), transposed=transposed))
    return each * (bool(output_mask[0]) + bool(output_mask[1]))


def _is_heavy(name: str) -> bool:
    """Whether an operator without a formula may do work that the convention counts."""
    namespace, _, operator = name.partition(".")
    if any(word in operator for word in _NOT_HEAVY):
        return False
    return namespace not in ("aten", "prim", "prims", "profiler") or any(word in operator for word in _HEAVY)


@contextmanager
def _slow_path() -> Iterator[None]:
    """torch.nn.MultiheadAttention without its fused path, for which no formula exists."""
    import torch

    was_on = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(was_on)


@contextmanager
def _operators() -> Iterator[Counter[str]]:
    """Calls of each operator that runs inside, composite ones taken apart first by the counter above it."""
    from torch.utils._python_dispatch import TorchDispatchMode

    ran: Counter[str] = Counter()

    class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call, unused-ignore]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            ran[str(getattr(func, "overloadpacket", func))] += 1
            return func(*args, **(kwargs or {}))

    with Recorder():  # type: ignore[no-untyped-call, unused-ignore]
        yield ran
