"""Images that came as bytes become numbers in front of the model; also put into users' scripts."""

from typing import Any

import torch


class NormalizeBytes:
    """Forward pre-hook: uint8 images become the numbers that they stand for, on their device."""

    def __init__(self, mean: list[float], std: list[float]) -> None:
        self.mean = torch.tensor(mean).view(-1, 1, 1)
        self.std = torch.tensor(std).view(-1, 1, 1)

    def __call__(self, model: Any, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(self.normalize(image) for image in inputs)

    def normalize(self, images: Any) -> Any:
        """Other inputs are passed on."""
        if not isinstance(images, torch.Tensor) or images.dtype != torch.uint8 or images.dim() != 4:
            return images
        self.mean, self.std = self.mean.to(images.device), self.std.to(images.device)
        return images.float().div_(255).sub_(self.mean).div_(self.std)
