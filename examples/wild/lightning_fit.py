"""A convolutional classifier in Lightning's Trainer, as its tutorials train one."""

import argparse

import lightning as L
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Classifier(L.LightningModule):
    def __init__(self, width):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, padding=1, stride=2),
            nn.BatchNorm2d(2 * width),
            nn.ReLU(),
            nn.Conv2d(2 * width, 4 * width, 3, padding=1, stride=2),
            nn.BatchNorm2d(4 * width),
            nn.ReLU(),
        )
        self.head = nn.Linear(4 * width, 10)

    def forward(self, x):
        return self.head(self.features(x).mean(dim=(2, 3)))

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = F.cross_entropy(self(x), y)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--samples", type=int, default=8000)
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--width", type=int, default=48)
    args = parser.parse_args()
    L.seed_everything(0)
    images = torch.randn(args.samples, 3, args.size, args.size)
    labels = torch.randint(0, 10, (args.samples,))
    loader = DataLoader(TensorDataset(images, labels), batch_size=args.batch_size, shuffle=True)
    trainer = L.Trainer(max_epochs=1, logger=False, enable_checkpointing=False, log_every_n_steps=20)
    trainer.fit(Classifier(args.width), loader)


if __name__ == "__main__":
    main()
