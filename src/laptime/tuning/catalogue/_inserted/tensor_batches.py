"""A TensorDataset that is asked for a batch at a time; also put into users' scripts."""

from typing import Any

import torch


class TensorBatches(torch.utils.data.Dataset[Any]):
    """Takes all rows of a batch in one go; for DataLoader(..., collate_fn=list)."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "dataset":
            raise AttributeError(name)
        return getattr(self.dataset, name)

    def __getitem__(self, index: Any) -> Any:
        return self.dataset[index]

    def __getitems__(self, indices: list[int]) -> list[torch.Tensor]:
        rows = torch.as_tensor(indices)
        dataset = self.dataset
        while isinstance(dataset, torch.utils.data.Subset):
            rows = torch.as_tensor(dataset.indices)[rows]
            dataset = dataset.dataset
        return [tensor[rows] for tensor in dataset.tensors]
