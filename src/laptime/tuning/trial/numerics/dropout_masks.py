"""Dropout whose mask depends on the seed alone, not on the order in which a tensor lies in memory.

Torch draws a mask in the order of the memory: under `channels_last` the same seed drops other values, and a
change that computes the same would be compared with a step that dropped others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def independent_of_layout() -> Callable[[], None]:
    """Let `torch.nn.functional.dropout`, which `nn.Dropout` calls, draw as if its tensor were contiguous.

    The result undoes it. Dropout of whole channels draws one number a channel, in order, anyway.
    """
    from torch import ones, strided
    from torch.nn import functional

    plain: Callable[..., Any] = functional.dropout

    def dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
        if not training or input.layout is not strided or input.is_contiguous():
            return plain(input, p, training, inplace)
        factors = plain(ones(input.shape, dtype=input.dtype, device=input.device), p, True)
        return input.mul_(factors) if inplace else input * factors

    functional.dropout = dropout

    def undo() -> None:
        functional.dropout = plain

    return undo
