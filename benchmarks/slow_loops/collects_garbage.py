"""gc.collect() in every step of a small loop."""

import gc

import torch
from torch import nn

rest = [{"at": at, "of": [at]} for at in range(100000)]
model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x, y = torch.randn(64, 64), torch.randint(0, 10, (64,))
for _ in range(500):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
    gc.collect()
