"""The `data.py:samples` of the pages: inputs of one call each."""

import torch


def samples():
    torch.manual_seed(1)
    return [(torch.randn(8, 64),) for _ in range(40)]
