"""A variational autoencoder whose loss is read at every step, in the shape of PyTorch's VAE example."""

import argparse

import torch
from torch import nn, optim
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


class VAE(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc1 = nn.Linear(784, width)
        self.fc21, self.fc22 = nn.Linear(width, 20), nn.Linear(width, 20)
        self.fc3, self.fc4 = nn.Linear(20, width), nn.Linear(width, 784)

    def encode(self, x):
        h1 = F.relu(self.fc1(x))
        return self.fc21(h1), self.fc22(h1)

    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        return mu + torch.randn_like(std) * std

    def decode(self, z):
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z))))

    def forward(self, x):
        mu, logvar = self.encode(x.view(-1, 784))
        return self.decode(self.reparameterize(mu, logvar)), mu, logvar


def loss_function(recon_x, x, mu, logvar):
    BCE = F.binary_cross_entropy(recon_x, x.view(-1, 784), reduction="sum")
    KLD = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return BCE + KLD


parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=128)
parser.add_argument("--width", type=int, default=400)
parser.add_argument("--samples", type=int, default=12800)
parser.add_argument("--epochs", type=int, default=10)
args = parser.parse_args()

torch.manual_seed(1)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
pixels = TensorDataset(torch.rand(args.samples, 1, 28, 28), torch.zeros(args.samples))
train_loader = DataLoader(pixels, batch_size=args.batch_size, shuffle=True)
model = VAE(args.width).to(device)
optimizer = optim.Adam(model.parameters(), lr=1e-3)

for epoch in range(1, args.epochs + 1):
    model.train()
    train_loss = 0
    for data, _ in train_loader:
        data = data.to(device)
        optimizer.zero_grad()
        recon_batch, mu, logvar = model(data)
        loss = loss_function(recon_batch, data, mu, logvar)
        loss.backward()
        train_loss += loss.item()
        optimizer.step()
    print(f"====> Epoch: {epoch} Average loss: {train_loss / args.samples:.4f}")
