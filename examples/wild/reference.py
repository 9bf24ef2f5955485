"""A classifier with label smoothing and a warm-up schedule, in the shape of torchvision's references."""

import argparse
import time
from collections import defaultdict, deque

import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import models, transforms
from torchvision.datasets import FakeData


class SmoothedValue:
    def __init__(self, window_size=20):
        self.deque = deque(maxlen=window_size)

    def update(self, value):
        self.deque.append(value)

    def __str__(self):
        return f"{sum(self.deque) / len(self.deque):.4f}"


class MetricLogger:
    def __init__(self):
        self.meters = defaultdict(SmoothedValue)

    def update(self, **kwargs):
        for k, v in kwargs.items():
            self.meters[k].update(v.item() if isinstance(v, torch.Tensor) else v)

    def log_every(self, iterable, print_freq, header):
        end = time.time()
        for i, obj in enumerate(iterable):
            yield obj
            self.meters["time"].update(time.time() - end)
            if i % print_freq == 0:
                print(header, f"[{i}/{len(iterable)}]", *(f"{k}: {v}" for k, v in self.meters.items()))
            end = time.time()


def train_one_epoch(model, criterion, optimizer, data_loader, device, epoch, args):
    model.train()
    metric_logger = MetricLogger()
    for image, target in metric_logger.log_every(data_loader, args.print_freq, f"Epoch: [{epoch}]"):
        image, target = image.to(device), target.to(device)
        output = model(image)
        loss = criterion(output, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        acc1 = (output.argmax(1) == target).float().mean()
        metric_logger.update(loss=loss, acc1=acc1, lr=optimizer.param_groups[0]["lr"])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=90)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--print-freq", type=int, default=10)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    transform = transforms.Compose(
        [
            transforms.RandomHorizontalFlip(),
            transforms.ToTensor(),
            transforms.Normalize((0.5,) * 3, (0.25,) * 3),
        ]
    )
    dataset = FakeData(1600, (3, args.size, args.size), 100, transform)
    data_loader = DataLoader(dataset, batch_size=args.batch_size, shuffle=True, num_workers=args.workers)
    model = models.resnet18(num_classes=100).to(device)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9, weight_decay=2e-5)
    main_schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=args.epochs - 5)
    warmup = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.01, total_iters=5)
    schedule = torch.optim.lr_scheduler.SequentialLR(optimizer, [warmup, main_schedule], milestones=[5])
    for epoch in range(args.epochs):
        train_one_epoch(model, criterion, optimizer, data_loader, device, epoch, args)
        schedule.step()


if __name__ == "__main__":
    main()
