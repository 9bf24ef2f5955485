"""An engine with mixup, an average of the weights and a rate by step, in the shape of timm's train.py."""

import argparse
import copy
import math

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torchvision import models


class ModelEma:
    """Keeps a moving average of everything in the model's state."""

    def __init__(self, model, decay=0.9998):
        self.module, self.decay = copy.deepcopy(model).eval(), decay

    @torch.no_grad()
    def update(self, model):
        for average, value in zip(self.module.state_dict().values(), model.state_dict().values()):
            average.copy_(self.decay * average + (1.0 - self.decay) * value)


class Mixup:
    def __init__(self, alpha, classes):
        self.beta, self.classes = torch.distributions.Beta(alpha, alpha), classes

    def __call__(self, x, target):
        lam = float(self.beta.sample())
        hot = nn.functional.one_hot(target, self.classes).float()
        return x * lam + x.flip(0) * (1.0 - lam), hot * lam + hot.flip(0) * (1.0 - lam)


def train_one_epoch(epoch, model, loader, optimizer, loss_fn, mixup, ema, args, device):
    model.train()
    updates = len(loader)
    for batch_idx, (input, target) in enumerate(loader):
        input, target = mixup(input.to(device), target.to(device))
        done = (epoch * updates + batch_idx) / (args.epochs * updates)
        for group in optimizer.param_groups:
            group["lr"] = args.lr * 0.5 * (1 + math.cos(math.pi * done))
        loss = loss_fn(model(input), target)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        ema.update(model)
        if batch_idx % args.log_interval == 0:
            print(f"Train: {epoch} [{batch_idx}/{updates}] Loss: {loss.item():.3f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--img-size", type=int, default=96)
    parser.add_argument("--samples", type=int, default=640)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--log-interval", type=int, default=10)
    args = parser.parse_args()
    torch.manual_seed(42)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    images = torch.randn(args.samples, 3, args.img_size, args.img_size)
    dataset = TensorDataset(images, torch.randint(0, 100, (args.samples,)))
    loader = DataLoader(dataset, batch_size=args.batch_size, shuffle=True, drop_last=True)
    model = models.mobilenet_v3_small(num_classes=100).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.05)
    ema, mixup = ModelEma(model), Mixup(0.8, 100)
    for epoch in range(args.epochs):
        train_one_epoch(epoch, model, loader, optimizer, nn.CrossEntropyLoss(), mixup, ema, args, device)


if __name__ == "__main__":
    main()
