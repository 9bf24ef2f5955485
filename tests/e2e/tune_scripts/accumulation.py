"""Gradients of four batches make one step."""

import sys

import planted  # noqa: F401
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

ACCUMULATE = 4

torch.manual_seed(3)
loader = DataLoader(TensorDataset(torch.randn(128, 8), torch.randn(128, 1)), batch_size=4, shuffle=True)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 1000):
    for step, (x, y) in enumerate(loader):
        loss = nn.functional.mse_loss(model(x), y) / ACCUMULATE
        loss.backward()
        if (step + 1) % ACCUMULATE == 0:
            optimizer.step()
            optimizer.zero_grad()
print(f"loss {loss.item():.6f}")
