"""The part of a call's work that no other machine or library can leave out, for bounds (`pricing/work.py`).

Told are FLOPs by dtype of dense matrix products, and of convolutions as if their kernels were 1 x 1; and the
bytes of the parameters that these read. Everything else counts as nothing, so the sum is a lower bound.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any


class LeastWork:
    """Adds up what runs.

    Args:
        parameters: of the model; a plain tensor is no weight.
    """

    def __init__(self, parameters: Iterable[Any]) -> None:
        self._parameters = {parameter.untyped_storage().data_ptr() for parameter in parameters}
        self._flops: Counter[str] = Counter()
        self._weights: dict[int, int] = {}

    def add(self, name: str, args: Any, output: Any) -> None:
        """One call of an operator, `aten.mm`."""
        formula = _FORMULAS.get(name)
        if formula is None:
            return
        operands, flops = formula(args, output)
        if any(_is_special(operand) for operand in operands):
            return
        self._flops[str(operands[0].dtype).removeprefix("torch.")] += flops
        for operand in operands:
            storage = operand.untyped_storage()
            if storage.data_ptr() in self._parameters:
                read = min(operand.numel() * operand.element_size(), storage.nbytes())
                self._weights[storage.data_ptr()] = max(read, self._weights.get(storage.data_ptr(), 0))

    def told(self) -> dict[str, Any]:
        """`flops` by dtype and `weights` in bytes."""
        return {"flops": dict(self._flops), "weights": sum(self._weights.values())}


def _is_special(tensor: Any) -> bool:
    """Whether its zeros, or its parts, may be left out; or what it is made of is not there."""
    import torch

    return bool(tensor.layout != torch.strided or tensor.is_complex() or tensor.is_meta)


def _mm(args: Any, output: Any) -> tuple[list[Any], int]:
    left, right = args[0], args[1]
    return [left, right], 2 * output.numel() * left.shape[-1]


def _addmm(args: Any, output: Any) -> tuple[list[Any], int]:
    return _mm(args[1:], output)


def _linear(args: Any, output: Any) -> tuple[list[Any], int]:
    return _mm(args, output)


def _convolution(args: Any, output: Any) -> tuple[list[Any], int]:
    inputs, weight, transposed = args[0], args[1], args[6]
    places = inputs if transposed else output
    return [inputs, weight], 2 * places.numel() * weight.shape[1]


def _convolution_backward(args: Any, output: Any) -> tuple[list[Any], int]:
    gradient, inputs, weight, transposed, mask = args[0], args[1], args[2], args[7], args[10]
    places = inputs if transposed else gradient
    return [gradient, inputs, weight], 2 * places.numel() * weight.shape[1] * (bool(mask[0]) + bool(mask[1]))


_FORMULAS = {
    "aten.mm": _mm,
    "aten.addmm": _addmm,
    "aten.linear": _linear,
    "aten.convolution": _convolution,
    "aten.convolution_backward": _convolution_backward,
}
