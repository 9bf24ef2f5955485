"""Convolutions in float64, for which oneDNN has none."""

import torch
from torch import nn

model = nn.Sequential(nn.Conv2d(8, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3)).double()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(8, 8, 48, 48, dtype=torch.float64)
for _ in range(200):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
