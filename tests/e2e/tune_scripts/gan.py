"""Two models, two optimizers, three backward passes."""

import sys

import planted  # noqa: F401
import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
netG = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 8))
netD = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
criterion = nn.BCEWithLogitsLoss()
optimizerD = optim.Adam(netD.parameters(), lr=2e-4)
optimizerG = optim.Adam(netG.parameters(), lr=2e-4)
dataloader = DataLoader(TensorDataset(torch.randn(64, 8)), batch_size=8)

for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 1000):
    for _step, (real,) in enumerate(dataloader, 0):
        # (1) the discriminator
        netD.zero_grad()
        output = netD(real).view(-1)
        errD_real = criterion(output, torch.ones_like(output))
        errD_real.backward()
        fake = netG(torch.randn(len(real), 4))
        output = netD(fake.detach()).view(-1)
        errD_fake = criterion(output, torch.zeros_like(output))
        errD_fake.backward()
        optimizerD.step()

        # (2) the generator
        netG.zero_grad()
        output = netD(fake).view(-1)
        errG = criterion(output, torch.ones_like(output))
        errG.backward()
        optimizerG.step()
print(f"loss {errD_real.item() + errD_fake.item() + errG.item():.6f}")
