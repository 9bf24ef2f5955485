"""Slow because a line from a larger machine's job script asks for more threads than there are cores.

laptime tune examples/slow/wrong_threads.py
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(16)


def main():
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(20_000, 512), torch.randint(0, 10, (20_000,)))
    loader = DataLoader(data, batch_size=128, shuffle=True)
    model = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(10):
        for inputs, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
