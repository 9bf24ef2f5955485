"""Inputs of training steps, kept by one process and fed to another: batches, state of models and optimizers.

A batch is kept as the list of its tensors. It is fed inside a batch that the loader itself has just made,
whose tensors are replaced: so its type, whatever class it is, needs no pickling.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

from laptime.tuning.trial import batches
from laptime.tuning.trial.numerics import tensor_summary


class DoesNotFit(Exception):
    """The captured inputs do not fit this loop; the text says what differs."""


def seed_everything(seed: int) -> None:
    """SeedShift of torch (all devices), of `random`, and of numpy where it is imported."""
    import torch

    torch.manual_seed(seed)
    random.seed(seed)
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed % (1 << 32))


def tensors_of(batch: Any, most: int | None = None) -> list[Any]:
    """Copies of a batch's tensors, on the CPU; of those with a row a sample the first `most` rows."""
    count = batches.size(batch)
    return [
        (tensor[:most] if most is not None and tensor.dim() and len(tensor) == count else tensor)
        .detach()
        .cpu()
        .clone()
        for _, tensor in batches.tensors(batch)
    ]


def filled(batch: Any, stored: list[Any]) -> Any:
    """The batch with captured tensors in it: on its devices, in its memory formats, pinned where it is.

    Raises:
        DoesNotFit: there are more or fewer tensors, or other types.
    """
    import torch

    if [tensor.dtype for _, tensor in batches.tensors(batch)] != [tensor.dtype for tensor in stored]:
        raise DoesNotFit("the loader gives tensors of other number or type than those that were captured")
    remaining = iter(stored)

    def swap(tensor: Any) -> Any:
        captured = next(remaining)
        if tensor.shape != captured.shape:  # the last batch of an epoch, longer sentences
            return captured.to(tensor.device, copy=True)
        copy = torch.empty_like(tensor, memory_format=torch.preserve_format).copy_(captured)
        return copy.pin_memory() if tensor.is_pinned() else copy

    return batches.mapped(batch, swap)


def write(path: str, content: dict[str, Any]) -> None:
    """torch.save in one move: a reader never sees half of it."""
    import torch

    draft = f"{path}.tmp"
    torch.save(content, draft)
    Path(draft).replace(path)


def read(path: str) -> dict[str, Any]:
    """The content of a file of `write`: plain values and tensors only, mapped into memory and not copied.

    Raises:
        OSError, RuntimeError, pickle.UnpicklingError: it is no such file.
    """
    import torch

    content: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    return content


def state_of(parameters: dict[str, Any], buffers: dict[str, Any], optimizers: list[Any]) -> dict[str, Any]:
    """Copies of all values, by name."""
    groups = tensor_summary.groups(parameters, buffers, optimizers)
    return {
        group: {name: tensor.detach().cpu().clone() for name, tensor in tensors.items()}
        for group, tensors in groups.items()
    }


def put_back(
    stored: dict[str, Any], parameters: dict[str, Any], buffers: dict[str, Any], optimizers: list[Any]
) -> list[str]:
    """Write captured values into these tensors, in place: memory formats and captured graphs stay valid.

    Learning rates and switches of the optimizers are left as the script has set them.

    Returns:
        Names that have no partner, or one of another shape.
    """
    import torch

    unmatched: list[str] = []
    here = {"parameters": parameters, "buffers": buffers}
    with torch.no_grad():
        for group, tensors in here.items():
            for name in sorted(set(tensors) | set(stored[group])):
                tensor, captured = tensors.get(name), stored[group].get(name)
                if tensor is None or captured is None or tensor.shape != captured.shape:
                    unmatched.append(name)
                else:
                    tensor.copy_(captured)
        unmatched += _put_back_states(stored["optimizer"], parameters, optimizers)
    return unmatched


def _put_back_states(stored: dict[str, Any], parameters: dict[str, Any], optimizers: list[Any]) -> list[str]:
    import torch

    unmatched = set(stored)
    for name, state, key, value in tensor_summary.state_items(optimizers, parameters):
        if name not in unmatched:
            continue
        if isinstance(value, torch.Tensor) and value.shape == stored[name].shape:
            value.copy_(stored[name])
            unmatched.discard(name)
        elif tensor_summary.is_number(value):
            state[key] = type(value)(stored[name].item())
            unmatched.discard(name)
    return sorted(unmatched)
