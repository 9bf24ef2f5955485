"""An IterableDataset, and a DataLoader that is imported where it is used."""

import sys

import planted  # noqa: F401
import torch
from torch import nn


def main():
    from torch.utils.data import DataLoader as Loader
    from torch.utils.data import IterableDataset

    class Stream(IterableDataset):
        def __iter__(self):
            generator = torch.Generator().manual_seed(0)
            for _ in range(160):
                x = torch.randn(5, generator=generator)
                yield x, x.sum()

    torch.manual_seed(0)
    model = nn.Linear(5, 1)
    sgd = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 200):
        for x, y in Loader(Stream(), batch_size=4):
            sgd.zero_grad()
            loss = ((model(x).squeeze(1) - y) ** 2).mean()
            loss.backward()
            sgd.step()
    print(f"loss {loss.item():.6f}")


if __name__ == "__main__":
    main()
