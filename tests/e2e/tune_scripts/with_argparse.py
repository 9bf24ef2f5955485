#!/usr/bin/env python
"""Options by argparse, behind a __main__ guard."""

from __future__ import annotations

import argparse

import planted  # noqa: F401
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("epochs", type=int, nargs="?", default=1000)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--batch-size", type=int, default=16)
    args = parser.parse_args()
    torch.manual_seed(1)
    features = torch.randn(96, 6)
    train_set = TensorDataset(features, (features.sum(1) > 0).long())
    train_loader = DataLoader(train_set, batch_size=args.batch_size, shuffle=True, drop_last=True)
    net = torch.nn.Linear(6, 2)
    opt = torch.optim.SGD(net.parameters(), lr=args.lr, momentum=0.9)
    for _epoch in range(1, args.epochs + 1):
        for data, target in train_loader:
            opt.zero_grad()
            loss = F.cross_entropy(net(data), target)
            loss.backward()
            opt.step()
    print(f"loss {loss.item():.6f}")


if __name__ == "__main__":
    main()
