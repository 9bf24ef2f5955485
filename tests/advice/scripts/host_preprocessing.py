"""Slow because the training loop itself decodes and resizes its images, without any loader."""

import io

import numpy as np
import torch
from PIL import Image
from torch import nn


def load_batch(files):
    images = [Image.open(io.BytesIO(file)).convert("RGB").resize((96, 96)) for file in files]
    return (
        torch.from_numpy(np.stack([np.asarray(image) for image in images])).permute(0, 3, 1, 2).float() / 255
    )


def main():
    torch.manual_seed(0)
    torch.set_num_threads(2)
    rng, files = np.random.default_rng(0), []
    for _ in range(12):
        file = io.BytesIO()
        Image.fromarray(rng.integers(0, 255, (700, 900, 3), np.uint8)).save(file, "JPEG")
        files.append(file.getvalue())
    model = nn.Sequential(
        nn.Conv2d(3, 16, 5, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(256, 4)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(60):
        loss = nn.functional.cross_entropy(model(load_batch(files)), torch.randint(4, (12,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
