"""Slow because every sentence is padded to the longest one there ever was.

laptime tune examples/slow/padding_waste.py
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

VOCABULARY, LONGEST, PAD = 1000, 256, 0


class Sentences(Dataset):
    """Most are short, one in five hundred is long; all are padded to LONGEST."""

    def __init__(self, count=20_000):
        generator = torch.Generator().manual_seed(0)
        self.lengths = torch.randint(8, 49, (count,), generator=generator)
        self.lengths[::500] = LONGEST
        self.tokens = torch.randint(1, VOCABULARY, (count, LONGEST), generator=generator)
        self.tokens[torch.arange(LONGEST) >= self.lengths[:, None]] = PAD

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, index):
        return self.tokens[index], index % 2


class Classifier(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, width, padding_idx=PAD)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.head = nn.Linear(width, 2)

    def forward(self, tokens):
        is_padding = tokens == PAD
        found = self.layers(self.embed(tokens), src_key_padding_mask=is_padding)
        found = found.masked_fill(is_padding[..., None], 0).sum(1) / (~is_padding).sum(1, keepdim=True)
        return self.head(found)


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)  # the machine is shared
    loader = DataLoader(Sentences(), batch_size=8, shuffle=True)
    model = Classifier()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for tokens, labels in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(tokens), labels)
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
