"""examples/slow/chatty.py, which reads numbers back in every 50th step, and all of them at once."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_num_threads(1)  # the machine is shared
data = TensorDataset(torch.randn(100_000, 32), torch.randint(0, 10, (100_000,)))
loader = DataLoader(data, batch_size=512, shuffle=True)
model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = nn.CrossEntropyLoss()

for epoch in range(20):
    for step, (inputs, labels) in enumerate(loader):
        optimizer.zero_grad()
        outputs = model(inputs)
        loss = criterion(outputs, labels)
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            right = (outputs.argmax(1) == labels).float().mean().item()
            print(f"epoch {epoch} step {step} loss {loss.item():.4f} right {right:.2%}")
