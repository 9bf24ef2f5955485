"""Slow where the machine has matrix units for bfloat16 that float32 never reaches.

laptime tune examples/slow/fp32_transformer.py
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

VOCABULARY, LENGTH, WIDTH = 500, 32, 128


class Language(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens):
        return self.head(self.layers(self.embed(tokens)))


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)  # the machine is shared
    tokens = torch.randint(0, VOCABULARY, (20_000, LENGTH + 1))
    loader = DataLoader(TensorDataset(tokens), batch_size=8, shuffle=True)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = Language().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for (batch,) in loader:
        batch = batch.to(device)
        optimizer.zero_grad()
        logits = model(batch[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
