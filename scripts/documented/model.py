"""The `model.py:build` of the pages: a small model and its inputs."""

import torch
from torch import nn


def build():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8)).eval(), (torch.randn(8, 64),)
