"""Slow because a line from another machine's job script leaves most of this one's cores idle.

laptime tune examples/slow/wrong_threads.py
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def main():
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(20_000, 1024), torch.randint(0, 10, (20_000,)))
    loader = DataLoader(data, batch_size=256, shuffle=True)
    model = nn.Sequential(
        nn.Linear(1024, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 10)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(10):
        for inputs, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
