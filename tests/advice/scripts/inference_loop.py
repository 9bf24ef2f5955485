"""Inference: images are resized with PIL and normalised in NumPy between the calls of a small network."""

import numpy as np
import torch
from PIL import Image
from torch import nn


def preprocess(image):
    small = image.resize((112, 112), Image.Resampling.BICUBIC)
    return torch.from_numpy((np.asarray(small, np.float32) / 255 - 0.45) / 0.225).permute(2, 0, 1)


def main():
    torch.manual_seed(0)
    torch.set_num_threads(2)
    rng = np.random.default_rng(0)
    images = [Image.fromarray(rng.integers(0, 255, (900, 1200, 3), np.uint8)) for _ in range(8)]
    model = nn.Sequential(
        nn.Conv2d(3, 16, 7, 4), nn.ReLU(), nn.AdaptiveAvgPool2d(7), nn.Flatten(), nn.Linear(784, 10)
    )
    model.eval()
    with torch.no_grad():
        for _ in range(80):
            batch = torch.stack([preprocess(image) for image in images])
            print(int(model(batch).argmax(1)[0]))


if __name__ == "__main__":
    main()
