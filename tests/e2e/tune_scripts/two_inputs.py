"""A module with two inputs; batches are dicts, put together by a function of the user's."""

import sys

import planted  # noqa: F401
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Pairs(Dataset):
    def __init__(self):
        generator = torch.Generator().manual_seed(0)
        self.images = torch.randn(48, 4, generator=generator)
        self.texts = torch.randn(48, 6, generator=generator)

    def __len__(self):
        return 48

    def __getitem__(self, index):
        return {"image": self.images[index], "text": self.texts[index], "label": index % 2}


class Both(nn.Module):
    def __init__(self):
        super().__init__()
        self.left, self.right, self.head = nn.Linear(4, 8), nn.Linear(6, 8), nn.Linear(16, 2)

    def forward(self, image, text):
        return self.head(torch.cat([self.left(image), self.right(text)], dim=1).relu())


def collate(samples):
    return {
        "image": torch.stack([each["image"] for each in samples]),
        "text": torch.stack([each["text"] for each in samples]),
        "label": torch.tensor([each["label"] for each in samples]),
    }


def main():
    torch.manual_seed(0)
    net = Both()
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 1000):
        for batch in DataLoader(Pairs(), batch_size=8, collate_fn=collate):
            opt.zero_grad(set_to_none=False)
            logits = net(batch["image"], text=batch["text"])
            loss = nn.functional.cross_entropy(logits, batch["label"])
            loss.backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            opt.step()
    print(f"loss {loss.item():.6f}")


if __name__ == "__main__":
    main()
