"""Workers start anew for each of many short epochs."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Noise(Dataset):
    def __len__(self):
        return 96

    def __getitem__(self, at):
        drawn = torch.Generator().manual_seed(at)
        return torch.randn(256, generator=drawn), at % 10


def main():
    loader = DataLoader(Noise(), batch_size=32, num_workers=2)
    model = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(200):
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()


if __name__ == "__main__":
    main()
