"""Every sample is resized and normalised anew in each epoch, with nothing random in it."""

import torch
from torch import nn
from torch.nn.functional import interpolate
from torch.utils.data import DataLoader, Dataset


class Images(Dataset):
    def __init__(self):
        self.raw = torch.randint(0, 255, (400, 3, 128, 128), dtype=torch.uint8)

    def __len__(self):
        return 400

    def __getitem__(self, at):
        image = interpolate(self.raw[at][None].float(), size=(64, 64), mode="bilinear", antialias=True)[0]
        return (image - image.mean()) / image.std(), at % 10


model = nn.Sequential(
    nn.Conv2d(3, 8, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10)
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(20):
    for x, y in DataLoader(Images(), batch_size=32):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
