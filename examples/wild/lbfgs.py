"""The same cells trained with LBFGS, whose step calls a closure some twenty times, as the example does."""

import argparse

import torch
from torch import nn, optim


class Sequence(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.rnn = nn.LSTM(1, width, 2, batch_first=True)
        self.linear = nn.Linear(width, 1)

    def forward(self, input):
        return self.linear(self.rnn(input)[0])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--length", type=int, default=100)
    parser.add_argument("--waves", type=int, default=97)
    parser.add_argument("--width", type=int, default=51)
    opt = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    places = torch.arange(opt.length + 1) + torch.randint(-80, 80, (opt.waves, 1))
    waves = torch.sin(places / 20.0).unsqueeze(2).to(device)
    input, target = waves[:, :-1], waves[:, 1:]
    seq = Sequence(opt.width).to(device)
    criterion = nn.MSELoss()
    optimizer = optim.LBFGS(seq.parameters(), lr=0.8, max_iter=5)
    for i in range(opt.steps):
        print("STEP: ", i)

        def closure():
            optimizer.zero_grad()
            out = seq(input)
            loss = criterion(out, target)
            print("loss:", loss.item())
            loss.backward()
            return loss

        optimizer.step(closure)
