"""A module in bfloat16 or float16 between float32 inputs and outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


def in_half_precision(module: torch.nn.Module, dtype: str) -> torch.nn.Module:
    """The module with its weights in a type of torch; floats are cast on the way in and on the way out."""
    import torch

    half = getattr(torch, dtype)

    class Cast(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.module = module.to(half)

        def forward(self, *given: torch.Tensor) -> Any:
            output = self.module(*(_to(each, half) for each in given))
            if isinstance(output, torch.Tensor):
                return _to(output, torch.float32)
            if isinstance(output, dict):
                return {key: _to(value, torch.float32) for key, value in output.items()}
            return tuple(_to(value, torch.float32) for value in output)

    return Cast().eval()


def _to(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return tensor.to(dtype) if tensor.is_floating_point() else tensor
