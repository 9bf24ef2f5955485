"""Sixteen threads for each usable CPU."""

import os

import torch
from torch import nn

torch.set_num_threads(16 * len(os.sched_getaffinity(0)))
model = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(128, 512)
for _ in range(300):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
