"""A forward pass in bfloat16, for models whose call has no statement of its own; put into users' scripts."""

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_map


def in_bfloat16(forward: Callable[..., Any], device: str) -> Callable[..., Any]:
    """The forward pass under autocast; what it returns is float32 again, so that losses are."""

    def run(*args: Any, **kwargs: Any) -> Any:
        with torch.autocast(device, dtype=torch.bfloat16):
            outputs = forward(*args, **kwargs)
        return tree_map(lambda each: each.float() if _is_half(each) else each, outputs)

    def _is_half(value: Any) -> bool:
        return isinstance(value, torch.Tensor) and value.dtype == torch.bfloat16

    return run
