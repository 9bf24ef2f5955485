"""A dataset that reads each sample once; also put into users' scripts."""

from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten


class CachedDataset(torch.utils.data.Dataset[Any]):
    """Keeps samples in memory that all loader workers share; those of another shape are read again.

    For datasets that give the same sample each time: tensors, arrays and numbers in tuples, lists and dicts.
    """

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset
        leaves, self.layout = tree_flatten(dataset[0])
        self.kinds = [type(leaf) for leaf in leaves]
        first: list[Any] = [self._tensor(leaf) for leaf in leaves]
        self.store = [leaf.new_empty((len(dataset), *leaf.shape)).share_memory_() for leaf in first]
        is_stored: Any = torch.zeros(len(dataset), dtype=torch.bool)
        self.is_stored = is_stored.share_memory_()

    def __len__(self) -> int:
        return len(self.dataset)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "dataset":
            raise AttributeError(name)
        return getattr(self.dataset, name)

    def __getitem__(self, index: Any) -> Any:
        place = int(index)
        if self.is_stored[place]:
            columns = zip(self.kinds, self.store, strict=True)
            return tree_unflatten([self._leaf(kind, rows[place]) for kind, rows in columns], self.layout)
        sample = self.dataset[index]
        leaves, layout = tree_flatten(sample)
        if layout == self.layout and [type(leaf) for leaf in leaves] == self.kinds:
            pairs = list(zip(self.store, map(self._tensor, leaves), strict=True))
            if all(rows.shape[1:] == leaf.shape and rows.dtype == leaf.dtype for rows, leaf in pairs):
                for rows, leaf in pairs:
                    rows[place] = leaf
                self.is_stored[place] = True
        return sample

    @staticmethod
    def _tensor(leaf: Any) -> torch.Tensor:
        return torch.as_tensor(leaf, dtype=torch.float64 if type(leaf) is float else None)

    @staticmethod
    def _leaf(kind: Any, value: torch.Tensor) -> Any:
        if issubclass(kind, torch.Tensor):
            return value.clone()
        return value.numpy().copy() if value.dim() else kind(value.item())
