"""examples/slow/tiny_ops.py, compiled."""

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset


class Wave(nn.Module):
    """A filter bank of its own making: many elementwise operators on small activations."""

    def __init__(self, width=256, rounds=16):
        super().__init__()
        self.rounds = rounds
        self.scale = nn.Parameter(torch.randn(rounds, width) * 0.1)
        self.shift = nn.Parameter(torch.zeros(rounds, width))
        self.head = nn.Linear(width, 1)

    def forward(self, x: Tensor) -> Tensor:
        for index in range(self.rounds):
            wave = (x * self.scale[index] + self.shift[index]).abs().sqrt()
            x = torch.sigmoid(1.0 - wave) * 2.0 - 0.5
        return self.head(x)


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)  # the machine is shared
    data = TensorDataset(0.1 + torch.rand(20_000, 256), torch.rand(20_000, 1))
    loader = DataLoader(data, batch_size=64, shuffle=True)
    model = Wave()
    model.compile()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(20):
        for inputs, wanted in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(inputs), wanted)
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
