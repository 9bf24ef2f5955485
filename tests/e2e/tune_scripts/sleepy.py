"""A script whose dataset sleeps."""

import os
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

WAIT = 0.002
torch.set_num_threads(1)


class Sleepy(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        if WAIT and "AWAKE" not in os.environ:
            time.sleep(WAIT)
        return torch.full((8,), index / 64), index % 3


torch.manual_seed(0)
loader = DataLoader(Sleepy(), batch_size=8)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for _ in range(1000):
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
