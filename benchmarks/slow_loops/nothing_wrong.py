"""Large products on all CPUs, out of tensors that are there."""

import torch
from torch import nn

model = nn.Sequential(nn.Linear(768, 3072), nn.GELU(), nn.Linear(3072, 768))
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
x = torch.randn(256, 768)
for _ in range(200):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
