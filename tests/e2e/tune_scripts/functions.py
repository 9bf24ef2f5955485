"""Functions, and a call at the end."""

import sys

import planted  # noqa: F401
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def data():
    torch.manual_seed(0)
    return TensorDataset(torch.randn(64, 8), torch.randint(0, 3, (64,)))


def build():
    # A small model.
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))


def train(epochs=3):
    loader = DataLoader(data(), 8, True)  # batch, shuffle
    model = build()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    criterion = nn.CrossEntropyLoss()
    for _ in range(epochs):
        for x, y in loader:
            x = x.to("cpu:0")
            optimizer.zero_grad()
            out = model(x)
            loss = criterion(out, y)
            loss.backward()
            optimizer.step()
    print(f"loss {loss.item():.6f}")


train(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
