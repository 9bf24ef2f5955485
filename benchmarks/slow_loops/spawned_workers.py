"""Workers are spawned, not forked, for each of the epochs."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    data = TensorDataset(torch.randn(160, 16), torch.arange(160) % 10)
    loader = DataLoader(data, batch_size=16, num_workers=1, multiprocessing_context="spawn")
    model = nn.Linear(16, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(12):
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()


if __name__ == "__main__":
    main()
