"""Random crops, flips and blurs of every sample, in the process of the loop."""

import torch
from torch import nn
from torch.nn.functional import conv2d
from torch.utils.data import DataLoader, Dataset


class Images(Dataset):
    def __init__(self):
        self.raw = torch.rand(512, 3, 96, 96)

    def __len__(self):
        return 512

    def __getitem__(self, at):
        x, y = torch.randint(0, 32, (2,)).tolist()
        image = self.raw[at, :, x : x + 64, y : y + 64]
        image = conv2d(image[:, None], torch.rand(1, 1, 5, 5))[:, 0]
        return image.flip(-1) if torch.rand(()) < 0.5 else image, at % 10


layers = [nn.Conv2d(3, 8, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10)]
model = nn.Sequential(*layers)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(20):
    for x, y in DataLoader(Images(), batch_size=32, shuffle=True):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
