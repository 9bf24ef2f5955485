"""Two LSTM cells that continue sine waves, stepped through time in Python, as in time_sequence_prediction."""

import argparse

import torch
from torch import nn, optim


class Sequence(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width
        self.lstm1, self.lstm2 = nn.LSTMCell(1, width), nn.LSTMCell(width, width)
        self.linear = nn.Linear(width, 1)

    def forward(self, input):
        outputs = []
        h_t = c_t = h_t2 = c_t2 = torch.zeros(input.size(0), self.width, device=input.device)
        for input_t in input.split(1, dim=1):
            h_t, c_t = self.lstm1(input_t, (h_t, c_t))
            h_t2, c_t2 = self.lstm2(h_t, (h_t2, c_t2))
            outputs += [self.linear(h_t2)]
        return torch.cat(outputs, dim=1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--length", type=int, default=100)
    parser.add_argument("--waves", type=int, default=97)
    parser.add_argument("--width", type=int, default=51)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    places = torch.arange(args.length + 1) + torch.randint(-80, 80, (args.waves, 1))
    waves = torch.sin(places / 20.0).to(device)
    input, target = waves[:, :-1], waves[:, 1:]
    seq = Sequence(args.width).to(device)
    criterion = nn.MSELoss()
    optimizer = optim.Adam(seq.parameters(), lr=1e-3)
    for i in range(args.steps):
        optimizer.zero_grad()
        out = seq(input)
        loss = criterion(out, target)
        print("STEP:", i, "loss:", loss.item())
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
