"""Batches of sequences cut to their longest one; also put into users' scripts."""

from collections.abc import Iterator
from typing import Any

import torch


def trim_padding(*batch: Any, pad: int) -> Any:
    """A batch without the trailing columns that hold nothing but padding, down to a multiple of 8.

    The integer tensor [samples, length] with the largest numbers has the tokens; every tensor that begins
    with the same two dimensions is cut with it."""
    tables = [tensor for tensor in _tensors_of(batch) if tensor.dim() == 2 and tensor.numel()]
    tables = [table for table in tables if table.dtype in (torch.int64, torch.int32)]
    if tables:
        tokens = max(tables, key=lambda table: int(table.max()))
        used = (tokens != pad).any(0).nonzero()
        longest = int(used[-1]) + 1 if len(used) else 1
        length = min(tokens.shape[1], -(-longest // 8) * 8)
        if length < tokens.shape[1]:
            batch = _cut_columns(batch, tokens.shape, length)
    return batch[0] if len(batch) == 1 else batch


def _tensors_of(part: Any) -> Iterator[torch.Tensor]:
    if isinstance(part, torch.Tensor):
        yield part
    elif isinstance(part, (list, tuple)):
        for each in part:
            yield from _tensors_of(each)
    elif hasattr(part, "values"):
        for each in part.values():
            yield from _tensors_of(each)


def _cut_columns(part: Any, shape: Any, length: int) -> Any:
    if isinstance(part, torch.Tensor):
        return part[:, :length].contiguous() if part.shape[:2] == shape else part
    if isinstance(part, tuple) and hasattr(part, "_fields"):
        return type(part)(*(_cut_columns(each, shape, length) for each in part))
    if isinstance(part, (list, tuple)):
        return type(part)(_cut_columns(each, shape, length) for each in part)
    if hasattr(part, "values"):
        for key in list(part):
            part[key] = _cut_columns(part[key], shape, length)
    return part
