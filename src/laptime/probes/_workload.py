"""The small program that `laptime doctor` measures against itself: a few milliseconds of what models do.

Neither is tuned to look steady: all threads work, and each call allocates memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def network() -> Any:
    """A small convolutional network and its input, for torch on any device."""
    import torch
    from torch import nn

    layers: list[nn.Module] = []
    channels = 3
    for width, stride in ((32, 2), (64, 2), (128, 2), (128, 1)):
        layers += [nn.Conv2d(channels, width, 3, stride=stride, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
        channels = width
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000))
    return model.eval(), torch.randn(1, 3, 160, 160)


def products() -> Callable[[], Any]:
    """Matrix products and activations, for machines without torch."""
    import numpy as np

    drawn = np.random.default_rng(0)
    x, a, b = (drawn.standard_normal((256, 256), dtype=np.float32) for _ in range(3))

    def call() -> Any:
        y = x
        for _ in range(4):
            y = np.maximum(y @ a, 0.0) @ b * np.float32(1e-3)
        return y

    return call
