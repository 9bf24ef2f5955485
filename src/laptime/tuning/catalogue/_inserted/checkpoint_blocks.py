"""Activation checkpointing of a model's blocks; the code goes into the user's source as it stands."""

from collections import Counter
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint


def checkpoint_blocks(model: Any) -> list[Any]:
    """Compute activations of repeated blocks again in the backward pass instead of keeping them.

    Blocks with batch normalisation are left alone: their running statistics would be updated twice."""
    wrapped: list[Any] = []
    inside: set[Any] = set()
    for module in model.modules():
        if not isinstance(module, torch.nn.Sequential | torch.nn.ModuleList):
            continue
        kinds = Counter(type(child) for child in module)
        for child in module:
            parts = set(child.modules())
            has_batchnorm = any(isinstance(part, torch.nn.modules.batchnorm._BatchNorm) for part in parts)
            is_block = len(parts) > 1 and not isinstance(child, torch.nn.ModuleList | torch.nn.ModuleDict)
            if kinds[type(child)] > 1 and is_block and not has_batchnorm and child not in inside:
                recompute(child)
                wrapped.append(child)
                inside |= parts
    return wrapped


def recompute(block: Any) -> None:
    """Keep only the inputs of a block for its backward pass."""
    forward = block.forward

    def run(*args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled():
            return forward(*args, **kwargs)
        return checkpoint(forward, *args, use_reentrant=False, **kwargs)

    block.forward = run
