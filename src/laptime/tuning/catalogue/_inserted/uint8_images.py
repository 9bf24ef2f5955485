"""A dataset that leaves its images as bytes; also put into users' scripts."""

import copy
from typing import Any

import torch
from torchvision import transforms


def with_bytes(dataset: Any) -> Any:
    """The dataset without the steps at the end of its transform that make numbers of uint8 images."""
    copied = copy.copy(dataset)
    if isinstance(dataset, torch.utils.data.Subset):
        copied.dataset = with_bytes(dataset.dataset)
        return copied
    for name, value in vars(dataset).items():
        if type(value).__name__ == "Compose":
            stages = [stage for stage in value.transforms if type(stage).__name__ != "Normalize"]
            ends = [transforms.PILToTensor()] if type(stages[-1]).__name__ == "ToTensor" else []
            setattr(copied, name, type(value)([*stages[:-1], *ends]))
    return copied
