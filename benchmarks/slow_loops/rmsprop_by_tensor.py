"""RMSprop over three hundred small tensors, one after the other."""

import torch
from torch import nn

model = nn.Sequential(*[nn.Linear(24, 24) for _ in range(150)])
optimizer = torch.optim.RMSprop(model.parameters(), foreach=False, momentum=0.9)
x = torch.randn(8, 24)
for _ in range(300):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
