"""Parameters, buffers, MACs and FLOPs, with a receipt of what was counted and what was not.

FLOPs come from `torch.utils.flop_counter` and, for operators that it has no formula for, from `formulas`:
one eager call runs, and each operator with a formula adds 2 x m x n x k (matrix products), 2 x outputs x
inputs of each (convolutions, recurrent layers), both products of attention, 5 N log2 N (FFTs). MACs are
FLOPs / 2. By that convention EfficientNet-B0 at 224 has 0.386 GMACs and 0.77 GFLOPs.

An operator without a formula that is not known to be light (`light`) makes the count incomplete: what is told
is then less than what is done, and every report says "at least".

Lies when: masks skip work; or kernels are started past PyTorch's dispatcher (Triton, extensions that register
no operator, NumPy, other threads), which nothing here can see.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from laptime.backends.torch import tensors
from laptime.backends.torch.errors import memory_exhausted
from laptime.backends.torch.formulas import formulas
from laptime.backends.torch.least_work import LeastWork
from laptime.backends.torch.light import is_light
from laptime.measure.metrics import BUFFERS, FLOPS, MACS, PARAMETERS, TRAINABLE
from laptime.records.series import Series

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch

_CONVENTION = (
    "matrix products, convolutions, attention, recurrent layers, FFTs (5 N log2 N); MACs = FLOPs / 2; "
    "not counted: elementwise operations, sums, normalisations, pooling, interpolation, lookups"
)


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


def _flops(
    call: Callable[[], Any], *, grad: bool, parameters: list[Any]
) -> tuple[int | None, dict[str, Any]]:
    import torch
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
        "least": ran.least.told(),
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
    """torch.nn.MultiheadAttention without its fused path, for which no formula exists."""
    import torch

    was_on = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(was_on)


@dataclass
class Ran:
    """What ran during a call, by name of the operator.

    Attributes:
        calls: how often each did.
        light: those that are no work by convention.
        sparse: those that were given a sparse tensor, of which a formula sees the outer shape only.
        complex: those that returned complex numbers, whose product is four of real ones. FFTs count right.
        least: what no machine can leave out of them.
    """

    least: LeastWork
    calls: Counter[str] = field(default_factory=Counter)
    light: set[str] = field(default_factory=set)
    sparse: set[str] = field(default_factory=set)
    complex: set[str] = field(default_factory=set)

    def add(self, func: Any, inputs: Any, output: Any) -> None:
        """One call more."""
        import torch

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
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    ran = Ran(LeastWork(p for p in parameters if not torch.nn.parameter.is_lazy(p)))

    class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call, unused-ignore]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            output = func(*args, **(kwargs or {}))
            ran.add(func, args, output)
            return output

    with Recorder():  # type: ignore[no-untyped-call, unused-ignore]
        yield ran
