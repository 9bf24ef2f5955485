"""What blocks of Python on the pages take for granted: a model, its inputs, and a loop that trains it."""

import torch
import torchvision  # noqa: F401, a page has models of it
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import laptime  # noqa: F401, a page imports it in its first block

torch.manual_seed(0)


class Loader(DataLoader):
    """A DataLoader, or what makes one."""

    def __call__(self):
        return self


def network():
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


model, inputs = network(), torch.randn(8, 64)
model_a, model_b = network().eval(), nn.Sequential(network(), nn.Linear(10, 10)).eval()
loader = Loader(TensorDataset(torch.randn(64, 64), torch.randint(10, (64,))), batch_size=8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def step(batch):
    images, labels = batch
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(images), labels).backward()
    optimizer.step()


def train(*_):
    for _ in range(8):
        for batch in loader:
            step(batch)


main = train
