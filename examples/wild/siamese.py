"""A siamese network that tells whether two digits are the same, in the shape of PyTorch's siamese example."""

import argparse

import torch
from torch import nn, optim
from torch.utils.data import DataLoader, Dataset
from torchvision import models


class SiameseNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.resnet = models.resnet18(weights=None)
        self.resnet.conv1 = nn.Conv2d(1, 64, 7, 2, 3, bias=False)
        features = self.resnet.fc.in_features
        self.resnet = nn.Sequential(*list(self.resnet.children())[:-1])
        self.fc = nn.Sequential(nn.Linear(features * 2, 256), nn.ReLU(inplace=True), nn.Linear(256, 1))

    def forward_once(self, x):
        return self.resnet(x).flatten(1)

    def forward(self, input1, input2):
        output = torch.cat((self.forward_once(input1), self.forward_once(input2)), 1)
        return torch.sigmoid(self.fc(output))


class APP_MATCHER(Dataset):
    """Pairs of digits, every second one of the same class."""

    def __init__(self, count):
        generator = torch.Generator().manual_seed(0)
        self.data = torch.rand(count, 28, 28, generator=generator)
        self.targets = torch.arange(count) % 10

    def __len__(self):
        return len(self.data)

    def __getitem__(self, index):
        same = index % 2 == 0
        other = (index + (10 if same else 3)) % len(self.data)
        return self.data[index][None], self.data[other][None], torch.tensor(float(same))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--samples", type=int, default=6400)
    parser.add_argument("--epochs", type=int, default=14)
    args = parser.parse_args()
    torch.manual_seed(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(APP_MATCHER(args.samples), batch_size=args.batch_size, shuffle=True)
    model = SiameseNetwork().to(device)
    optimizer = optim.Adadelta(model.parameters(), lr=1.0)
    criterion = nn.BCELoss()
    for epoch in range(1, args.epochs + 1):
        model.train()
        for batch_idx, (images_1, images_2, targets) in enumerate(loader):
            images_1, images_2, targets = images_1.to(device), images_2.to(device), targets.to(device)
            optimizer.zero_grad()
            loss = criterion(model(images_1, images_2).squeeze(1), targets)
            loss.backward()
            optimizer.step()
            if batch_idx % 10 == 0:
                print(f"Train Epoch: {epoch} [{batch_idx}/{len(loader)}] Loss: {loss.item():.6f}")


if __name__ == "__main__":
    main()
