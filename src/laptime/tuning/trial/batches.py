"""A batch that a loader gave (`instrument.batches`), cached: given again, moved, cut in half, doubled.

What is no tensor in it is passed on as it is."""

from __future__ import annotations

import copy
from collections.abc import Callable, MutableMapping
from typing import Any

from laptime.instrument.batches import is_rows as is_rows
from laptime.instrument.batches import size as size
from laptime.instrument.batches import tensors as tensors

FEWEST_COLUMNS = 4  # of an integer matrix that can be padded sequences


def map_tensors(batch: Any, change: Callable[[Any], Any]) -> Any:
    """The same structure with every tensor replaced; containers are new, so that a `pop` harms no other."""
    import torch

    if isinstance(batch, torch.Tensor):
        return change(batch)
    if isinstance(batch, (list, tuple)):
        parts = [map_tensors(each, change) for each in batch]
        return type(batch)(*parts) if hasattr(batch, "_fields") else type(batch)(parts)
    if isinstance(batch, MutableMapping):
        copied = copy.copy(batch)
        for key, value in batch.items():
            copied[key] = map_tensors(value, change)
        return copied
    return batch


def shapes(batch: Any) -> list[list[int]]:
    """Return the shapes of every tensor, in order."""
    return [list(tensor.shape) for _, tensor in tensors(batch)]


def nbytes(batch: Any) -> int:
    """Bytes of all tensors."""
    return sum(each.numel() * each.element_size() for _, each in tensors(batch))


class CachedBatch:
    """A batch as the loader gave it, to be given again and again.

    Its tensors are given themselves until a script is seen to write into them; from then on copies are."""

    def __init__(self, batch: Any) -> None:
        self.batch = map_tensors(batch, _copy)
        self._versions: list[tuple[Any, int]] = []
        self._is_written = False

    def give(self) -> Any:
        """The batch once more."""
        self._is_written |= any(tensor._version != version for tensor, version in self._versions)
        if self._is_written:
            self._versions = []
            return map_tensors(self.batch, _copy)
        batch = map_tensors(self.batch, lambda tensor: tensor.detach())
        self._versions = [(tensor, tensor._version) for _, tensor in tensors(batch)]
        return batch

    def on(self, device: Any) -> CachedBatch:
        """The same, moved to a device."""
        return CachedBatch(map_tensors(self.batch, lambda tensor: tensor.to(device)))

    def half(self) -> CachedBatch | None:
        """Its first half; None when the tensors do not share a leading dimension of two or more."""
        if is_rows(self.batch):
            return CachedBatch(self.batch[: len(self.batch) // 2])
        samples = self._shared()
        return self._resize(lambda tensor: tensor[: samples // 2]) if samples >= 2 else None

    def double(self) -> CachedBatch | None:
        """Twice the batch, one behind the other; None if it cannot be."""
        import torch

        if is_rows(self.batch):
            return CachedBatch([*self.batch, *self.batch])
        return self._resize(lambda tensor: torch.cat([tensor, tensor])) if self._shared() >= 1 else None

    def _resize(self, change: Callable[[Any], Any]) -> CachedBatch:
        return CachedBatch(map_tensors(self.batch, lambda tensor: change(tensor) if tensor.dim() else tensor))

    def _shared(self) -> int:
        """The leading dimension of every tensor; 0 when there are several, or something is no tensor."""
        sizes = {tensor.shape[0] for _, tensor in tensors(self.batch) if tensor.dim()}
        return int(sizes.pop()) if len(sizes) == 1 and _is_plain(self.batch) else 0


def _is_plain(batch: Any) -> bool:
    """Whether everything in a batch is a tensor or one number: a list of captions cannot be cut."""
    import torch

    if isinstance(batch, (list, tuple, MutableMapping)):
        return all(map(_is_plain, batch.values() if isinstance(batch, MutableMapping) else batch))
    return isinstance(batch, (torch.Tensor, int, float)) or batch is None


def _copy(tensor: Any) -> Any:
    clone = tensor.detach().clone()
    return clone.pin_memory() if tensor.device.type == "cpu" and tensor.is_pinned() else clone


def padding(batch: Any) -> float | None:
    """Share of a batch that trailing padding takes, 0 to 1; None if there are no padded sequences.

    Only integer matrices [samples, length] with more than two different values count: token ids, but no masks
    or one-hot targets. The value that rows most often end with is taken for padding, unless a row consists of
    nothing else."""
    shares = [share for _, each in tensors(batch) if (share := _trailing(each)) is not None]
    return max(shares) if shares else None


def _trailing(tensor: Any) -> float | None:
    is_whole = not tensor.is_floating_point() and not tensor.is_complex() and tensor.element_size() > 1
    if tensor.dim() != 2 or not is_whole or tensor.shape[0] < 2 or tensor.shape[1] < FEWEST_COLUMNS:
        return None
    table = tensor.detach().cpu()
    pad = table[:, -1].mode().values
    runs = (table == pad).flip(1).long().cumprod(1).sum(1)
    if int(runs.max()) < 2 or int(runs.max()) == table.shape[1] or table.unique().numel() <= 3:
        return None
    return float(runs.double().mean()) / int(table.shape[1])
