"""examples/slow/many_tensors.py with one kernel for the whole optimizer step."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.inner = nn.Linear(width, width)

    def forward(self, x):
        return x + torch.relu(self.inner(self.norm(x)))


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)  # the machine is shared
    data = TensorDataset(torch.randn(200_000, 32), torch.randint(0, 10, (200_000,)))
    loader = DataLoader(data, batch_sampler=Batches(len(data), 16), collate_fn=lambda rows: rows)
    model = nn.Sequential(*(Block(32) for _ in range(50)), nn.Linear(32, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    for rows in loader:
        inputs = torch.stack([x for x, _ in rows])
        labels = torch.stack([y for _, y in rows])
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()


class Batches:
    """Neighbouring rows, one batch after another."""

    def __init__(self, count, size):
        self.count, self.size = count, size

    def __len__(self):
        return self.count // self.size

    def __iter__(self):
        for begin in range(0, len(self) * self.size, self.size):
            yield list(range(begin, begin + self.size))


if __name__ == "__main__":
    main()
