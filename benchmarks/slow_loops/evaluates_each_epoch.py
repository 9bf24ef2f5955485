"""After every ten steps the model is evaluated on ten times as many batches."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
data = TensorDataset(torch.randn(640, 512), torch.randint(0, 10, (640,)))
held = TensorDataset(torch.randn(6400, 512), torch.randint(0, 10, (6400,)))
train, test = DataLoader(data, batch_size=64), DataLoader(held, batch_size=64)
model = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(100):
    for x, y in train:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    with torch.no_grad():
        right = sum((model(x).argmax(1) == y).sum().item() for x, y in test)
