"""The `train.py` of the pages: a short training loop with an option."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

words = argparse.ArgumentParser()
words.add_argument("--epochs", type=int, default=3)
words.add_argument("--config")
epochs = words.parse_args().epochs

data = DataLoader(TensorDataset(torch.randn(4096, 64), torch.randn(4096, 8)), batch_size=16)
model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(epochs):
    for inputs, wanted in data:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(inputs), wanted).backward()
        optimizer.step()
