"""Images stay bytes until they are on the model's device; also put into users' scripts."""

import copy
from typing import Any

import torch
from torchvision import transforms


def with_bytes(dataset: Any) -> Any:
    """The dataset without the steps at the end of its transform that make numbers of uint8 images."""
    made = copy.copy(dataset)
    if isinstance(dataset, torch.utils.data.Subset):
        made.dataset = with_bytes(dataset.dataset)
        return made
    for name, value in vars(dataset).items():
        if type(value).__name__ == "Compose":
            stages = [each for each in value.transforms if type(each).__name__ != "Normalize"]
            ends = [transforms.PILToTensor()] if type(stages[-1]).__name__ == "ToTensor" else []
            setattr(made, name, type(value)([*stages[:-1], *ends]))
    return made


class NormalizeBytes:
    """Forward pre-hook: uint8 images become the numbers that they stand for, on their device."""

    def __init__(self, mean: list[float], std: list[float]) -> None:
        self.mean = torch.tensor(mean).view(-1, 1, 1)
        self.std = torch.tensor(std).view(-1, 1, 1)

    def __call__(self, model: Any, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(self.normalized(each) for each in inputs)

    def normalized(self, images: Any) -> Any:
        """Other inputs are passed on."""
        if not isinstance(images, torch.Tensor) or images.dtype != torch.uint8 or images.dim() != 4:
            return images
        self.mean, self.std = self.mean.to(images.device), self.std.to(images.device)
        return images.float().div_(255).sub_(self.mean).div_(self.std)
