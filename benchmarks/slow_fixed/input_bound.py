"""examples/slow/input_bound.py with a loader worker for every core."""

import argparse
import io
import os

import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms import v2


class Photos(Dataset):
    """Noise as JPEG files in memory: decoding them costs what decoding photos costs."""

    def __init__(self, count):
        generator = torch.Generator().manual_seed(0)
        self.files = []
        for _ in range(64):
            pixels = torch.randint(0, 256, (256, 320, 3), dtype=torch.uint8, generator=generator)
            data = io.BytesIO()
            Image.fromarray(pixels.numpy()).save(data, "JPEG", quality=90)
            self.files.append(data.getvalue())
        self.count = count
        self.augment = v2.Compose(
            [
                v2.RandomResizedCrop(96, antialias=True),
                v2.RandomHorizontalFlip(),
                v2.ColorJitter(0.4, 0.4, 0.4),
                v2.ToImage(),
                v2.ToDtype(torch.float32, scale=True),
            ]
        )

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        image = Image.open(io.BytesIO(self.files[index % len(self.files)])).convert("RGB")
        return self.augment(image), index % 10


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--images", type=int, default=20_000)
    asked = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)  # the machine is shared

    loader = DataLoader(
        Photos(asked.images), batch_size=8, shuffle=True, num_workers=len(os.sched_getaffinity(0))
    )
    model = nn.Sequential(
        nn.Conv2d(3, 16, 5, stride=4), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(asked.epochs):
        for images, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
