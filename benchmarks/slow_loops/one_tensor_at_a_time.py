"""Adam updates two hundred small tensors one after the other."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(*[nn.Linear(32, 32) for _ in range(100)])
optimizer = torch.optim.Adam(model.parameters(), foreach=False)
x = torch.randn(16, 32)
for _ in range(400):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
