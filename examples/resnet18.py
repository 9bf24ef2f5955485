"""ResNet-18 on synthetic images, written as many first training loops are: everything that can wait, waits.

10,000 images of 32x32x3 bytes, resized to 224x224 and normalised one by one, batches of 32, SGD,
cross-entropy. Deliberately naive: no loader workers, no pinned memory, float32, a loss that is read in every
step. On CUDA where there is one, else on the CPU.

    laptime tune examples/resnet18.py
    laptime profile examples/resnet18.py
    laptime profile -o report.html examples/resnet18.py --workers 4
"""

from __future__ import annotations

import argparse

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset
from torchvision.models import resnet18
from torchvision.transforms import v2 as transforms

IMAGES, CLASSES = 10_000, 10


class Pictures(Dataset[tuple[Tensor, int]]):
    """Random bytes in the shape of CIFAR-10, made into what a network of ImageNet size takes."""

    def __init__(self, images: int) -> None:
        generator = torch.Generator().manual_seed(0)
        self.pixels = torch.randint(0, 256, (images, 3, 32, 32), dtype=torch.uint8, generator=generator)
        self.labels = torch.randint(0, CLASSES, (images,), generator=generator)
        self.transform = transforms.Compose(
            [
                transforms.Resize(224, antialias=True),
                transforms.ToDtype(torch.float32, scale=True),
                transforms.Normalize((0.491, 0.482, 0.447), (0.247, 0.243, 0.262)),
            ]
        )

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.transform(self.pixels[index]), int(self.labels[index])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--images", type=int, default=IMAGES)
    parser.add_argument("--workers", type=int, default=0)
    asked = parser.parse_args()

    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    loader = DataLoader(
        Pictures(asked.images), batch_size=asked.batch, shuffle=True, num_workers=asked.workers
    )
    model = resnet18(num_classes=CLASSES).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(asked.epochs):
        for number, (images, labels) in enumerate(loader):
            optimizer.zero_grad()
            loss = criterion(model(images.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
            print(f"epoch {epoch} step {number} loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
