"""The whole state is written to disk after every five steps."""

import tempfile

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
data = TensorDataset(torch.randn(80, 256), torch.randint(0, 10, (80,)))
model = nn.Sequential(nn.Linear(256, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 10))
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
with tempfile.TemporaryDirectory() as folder:
    for _ in range(200):
        for x, y in DataLoader(data, batch_size=16):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, f"{folder}/last.pt")
