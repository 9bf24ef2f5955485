"""A word-level LSTM whose hidden state is kept from batch to batch, in the shape of word_language_model."""

import argparse
import time

import torch
from torch import nn


class RNNModel(nn.Module):
    def __init__(self, ntoken, width, layers, dropout=0.2):
        super().__init__()
        self.ntoken = ntoken
        self.drop = nn.Dropout(dropout)
        self.encoder = nn.Embedding(ntoken, width)
        self.rnn = nn.LSTM(width, width, layers, dropout=dropout)
        self.decoder = nn.Linear(width, ntoken)

    def forward(self, input, hidden):
        output, hidden = self.rnn(self.drop(self.encoder(input)), hidden)
        decoded = self.decoder(self.drop(output)).view(-1, self.ntoken)
        return torch.log_softmax(decoded, dim=1), hidden

    def init_hidden(self, bsz):
        weight = next(self.parameters())
        shape = (self.rnn.num_layers, bsz, self.rnn.hidden_size)
        return weight.new_zeros(shape), weight.new_zeros(shape)


def repackage_hidden(h):
    """Wraps hidden states in new tensors, to detach them from their history."""
    return h.detach() if isinstance(h, torch.Tensor) else tuple(repackage_hidden(v) for v in h)


def batchify(data, bsz):
    nbatch = data.size(0) // bsz
    return data.narrow(0, 0, nbatch * bsz).view(bsz, -1).t().contiguous()


def get_batch(source, i, bptt):
    seq_len = min(bptt, len(source) - 1 - i)
    return source[i : i + seq_len], source[i + 1 : i + 1 + seq_len].view(-1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tokens", type=int, default=10000)
    parser.add_argument("--width", type=int, default=200)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--batch_size", type=int, default=20)
    parser.add_argument("--bptt", type=int, default=35)
    parser.add_argument("--words", type=int, default=200_000)
    parser.add_argument("--log-interval", type=int, default=50)
    args = parser.parse_args()
    torch.manual_seed(1111)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train_data = batchify(torch.randint(0, args.tokens, (args.words,)), args.batch_size).to(device)
    model = RNNModel(args.tokens, args.width, args.layers).to(device)
    criterion = nn.NLLLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=20)
    for epoch in range(40):
        model.train()
        total_loss, start_time = 0.0, time.time()
        hidden = model.init_hidden(args.batch_size)
        for batch, i in enumerate(range(0, train_data.size(0) - 1, args.bptt)):
            data, targets = get_batch(train_data, i, args.bptt)
            model.zero_grad()
            hidden = repackage_hidden(hidden)
            output, hidden = model(data, hidden)
            loss = criterion(output, targets)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
            optimizer.step()
            total_loss += loss.item()
            if batch % args.log_interval == 0 and batch > 0:
                elapsed = 1000 * (time.time() - start_time) / args.log_interval
                print(f"| epoch {epoch} | {batch} batches | ms/batch {elapsed:.2f} | loss {total_loss:.2f}")
                total_loss, start_time = 0.0, time.time()


if __name__ == "__main__":
    main()
