"""Slow because the loop collects Python's garbage in every step, beside a large heap of small objects."""

import gc

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    torch.manual_seed(0)
    torch.set_num_threads(2)
    history = [{"step": number, "values": [float(number)] * 4} for number in range(400_000)]
    data = TensorDataset(torch.randn(6_000, 256), torch.randn(6_000, 1))
    model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for inputs, wanted in DataLoader(data, batch_size=64):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(inputs), wanted).backward()
        optimizer.step()
        gc.collect()
    print(len(history))


if __name__ == "__main__":
    main()
