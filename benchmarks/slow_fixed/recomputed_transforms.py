"""examples/slow/recomputed_transforms.py, which prepares every image once."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms import v2


class Scans(Dataset):
    """256 grey images; nothing about them is random."""

    def __init__(self):
        generator = torch.Generator().manual_seed(0)
        self.pixels = torch.randint(0, 256, (256, 1, 128, 128), dtype=torch.uint8, generator=generator)
        prepare = v2.Compose(
            [
                v2.GaussianBlur(9, sigma=2.0),
                v2.Resize(32, antialias=True),
                v2.ToDtype(torch.float32, scale=True),
                v2.Normalize((0.5,), (0.25,)),
            ]
        )
        self.prepared = [prepare(pixels) for pixels in self.pixels]

    def __len__(self):
        return len(self.pixels)

    def __getitem__(self, index):
        return self.prepared[index], index % 10


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)  # the machine is shared
    loader = DataLoader(Scans(), batch_size=8, shuffle=True)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, stride=2), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(200):
        for images, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
