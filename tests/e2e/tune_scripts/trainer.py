"""A class that holds everything; the optimizer is made by a function that knows parameters only."""

import sys

import planted  # noqa: F401
import torch
from torch import nn
from torch.utils import data


def make_optimizer(params, name="sgd"):
    if name == "sgd":
        return torch.optim.SGD(params, lr=0.05)
    return torch.optim.AdamW(params)


class Trainer:
    def __init__(self, epochs):
        torch.manual_seed(1)
        self.epochs = epochs
        self.model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Flatten(), nn.Linear(144, 2))
        self.optimizer = make_optimizer(self.model.parameters())
        self.loader = data.DataLoader(
            data.TensorDataset(torch.randn(48, 1, 8, 8), torch.randint(0, 2, (48,))),
            batch_size=8,
            shuffle=True,  # every epoch anew
        )
        self.loss = nn.CrossEntropyLoss()

    def compute_loss(self, batch):
        images, labels = batch
        return self.loss(self.model(images), labels)

    def train_epoch(self):
        for batch in self.loader:
            loss = self.compute_loss(batch)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        return loss

    def fit(self):
        for _ in range(self.epochs):
            last = self.train_epoch()
        print(f"loss {float(last):.6f}")


if __name__ == "__main__":
    Trainer(epochs=int(sys.argv[1]) if len(sys.argv) > 1 else 1000).fit()
