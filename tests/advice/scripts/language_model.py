"""A word-level language model with an LSTM, as in pytorch/examples: truncated backpropagation, no loader."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, words=2_000, width=200):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.lstm = nn.LSTM(width, width, num_layers=2)
        self.decoder = nn.Linear(width, words)

    def forward(self, tokens, hidden):
        output, hidden = self.lstm(self.embedding(tokens), hidden)
        return self.decoder(output), hidden


def main():
    torch.manual_seed(0)
    torch.set_num_threads(2)
    text = torch.randint(2_000, (35 * 400 + 1, 20))
    model, hidden = Model(), None
    for start in range(0, len(text) - 36, 35):
        model.zero_grad()
        if hidden is not None:
            hidden = tuple(each.detach() for each in hidden)
        output, hidden = model(text[start : start + 35], hidden)
        loss = nn.functional.cross_entropy(output.flatten(0, 1), text[start + 1 : start + 36].flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        for parameter in model.parameters():
            parameter.data.add_(parameter.grad, alpha=-0.1)


if __name__ == "__main__":
    main()
