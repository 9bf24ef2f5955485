"""A graph convolutional network on one graph, in the shape of the GCN example: no loader, a step an epoch."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn


class GraphConv(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.kernel = nn.Parameter(torch.empty(inner, outer))
        nn.init.xavier_normal_(self.kernel)

    def forward(self, x, adjacency):
        return torch.sparse.mm(adjacency, x @ self.kernel)


class GCN(nn.Module):
    def __init__(self, features, hidden, classes, dropout=0.5):
        super().__init__()
        self.gc1, self.gc2 = GraphConv(features, hidden), GraphConv(hidden, classes)
        self.dropout = dropout

    def forward(self, x, adjacency):
        x = F.dropout(F.relu(self.gc1(x, adjacency)), self.dropout, training=self.training)
        return F.log_softmax(self.gc2(x, adjacency), dim=1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=2708)
    parser.add_argument("--features", type=int, default=1433)
    parser.add_argument("--hidden", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=2000)
    args = parser.parse_args()
    torch.manual_seed(13)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    features = (torch.rand(args.nodes, args.features) < 0.01).float().to(device)
    labels = torch.randint(0, 7, (args.nodes,), device=device)
    ends = torch.randint(0, args.nodes, (2, 4 * args.nodes))
    edges = torch.cat([ends, ends.flip(0), torch.arange(args.nodes).expand(2, -1)], dim=1)
    weights = torch.full((edges.size(1),), 1 / 9)
    adjacency = torch.sparse_coo_tensor(edges, weights, (args.nodes, args.nodes)).coalesce().to(device)
    train = torch.arange(args.nodes // 2, device=device)
    model = GCN(args.features, args.hidden, 7).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    for epoch in range(args.epochs):
        model.train()
        optimizer.zero_grad()
        output = model(features, adjacency)
        loss = F.nll_loss(output[train], labels[train])
        loss.backward()
        optimizer.step()
        if epoch % 20 == 0:
            accuracy = (output[train].argmax(1) == labels[train]).float().mean()
            print(f"Epoch: {epoch} loss: {loss.item():.4f} accuracy: {accuracy.item():.4f}")


if __name__ == "__main__":
    main()
