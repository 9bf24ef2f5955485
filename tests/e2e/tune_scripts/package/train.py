"""The loop."""

import sys

import planted  # noqa: F401
import torch
from torch.utils.data import DataLoader, TensorDataset

from .mod import build

model, optimizer = build()
loader = DataLoader(TensorDataset(torch.randn(64, 8), torch.randint(0, 3, (64,))), batch_size=8)
for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 1000):
    for x, y in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
print(f"loss {loss.item():.6f}")
