"""Large products on one of the machine's CPUs."""

import torch
from torch import nn

torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(1024, 2048), nn.ReLU(), nn.Linear(2048, 1024))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(256, 1024)
for _ in range(300):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
