"""A graph network: softmax over neighbours, batched products that are no attention of a transformer."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.message, self.score = nn.Linear(width, width), nn.Linear(2 * width, 1)

    def forward(self, x, neighbours):
        near = self.message(x)[neighbours]
        pair = torch.cat([x.unsqueeze(1).expand_as(near), near], -1)
        weight = self.score(pair).softmax(1)
        return torch.relu(torch.bmm(weight.transpose(1, 2), near).squeeze(1))


class Network(nn.Module):
    def __init__(self, width=96):
        super().__init__()
        self.layers = nn.ModuleList(Layer(width) for _ in range(3))
        self.head = nn.Linear(width, 8)

    def forward(self, x, neighbours):
        for layer in self.layers:
            x = layer(x, neighbours)
        return self.head(x)


def main():
    torch.manual_seed(0)
    torch.set_num_threads(2)
    features, neighbours = torch.randn(8_000, 96), torch.randint(256, (8_000, 16))
    data = TensorDataset(features, neighbours, torch.randint(8, (8_000,)))
    model = Network()
    optimizer = torch.optim.Adam(model.parameters(), foreach=True)
    for _ in range(4):
        for x, near, labels in DataLoader(data, batch_size=256, shuffle=True, drop_last=True):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x, near), labels).backward()
            optimizer.step()


if __name__ == "__main__":
    main()
