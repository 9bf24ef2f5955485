"""Every fifth step evaluates the model before the next one."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
data = TensorDataset(torch.randn(64000, 64), torch.randint(0, 10, (64000,)))
held = torch.randn(20000, 64)
model = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for number, (x, y) in enumerate(DataLoader(data, batch_size=32)):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
    if number % 5 == 4:
        with torch.no_grad():
            model(held).argmax(1)
