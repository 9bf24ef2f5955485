"""Hugging Face's Trainer."""

import sys

import planted  # noqa: F401
import torch
from torch import nn
from torch.utils.data import Dataset
from transformers import Trainer, TrainingArguments


class Rows(Dataset):
    def __init__(self):
        generator = torch.Generator().manual_seed(0)
        self.x = torch.randn(64, 8, generator=generator)

    def __len__(self):
        return 64

    def __getitem__(self, index):
        return {"x": self.x[index], "labels": torch.tensor(index % 3)}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))

    def forward(self, x, labels):
        logits = self.net(x)
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


if __name__ == "__main__":
    torch.manual_seed(0)
    arguments = TrainingArguments(
        output_dir="out",
        num_train_epochs=int(sys.argv[1]) if len(sys.argv) > 1 else 1000,
        per_device_train_batch_size=8,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        optim="adamw_torch",
        remove_unused_columns=False,
    )
    done = Trainer(model=Net(), args=arguments, train_dataset=Rows()).train()
    print(f"loss {done.training_loss:.6f}")
