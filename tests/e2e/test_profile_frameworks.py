"""Loops that are not the user's own: Lightning's and Hugging Face's. Skipped where they are not installed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.slow]

LIGHTNING = """
import lightning, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

class Net(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))

    def training_step(self, batch, index):
        return nn.functional.cross_entropy(self.net(batch[0]), batch[1])

    def validation_step(self, batch, index):
        self.log("loss", nn.functional.cross_entropy(self.net(batch[0]), batch[1]))

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1)]

def loader(items):
    return DataLoader(TensorDataset(torch.randn(items, 4), torch.randint(0, 2, (items,))), batch_size=8)

lightning.Trainer(
    max_epochs=200, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False
).fit(Net(), loader(256), loader(32))
print("the end", file=__import__("sys").stderr)
"""

TRANSFORMERS = """
import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 256

    def __getitem__(self, index):
        return {"input_ids": torch.randint(0, 100, (16,)), "labels": torch.tensor(index % 2)}

model = BertForSequenceClassification(BertConfig(
    vocab_size=100, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64
))
arguments = TrainingArguments(
    "out", per_device_train_batch_size=8, gradient_accumulation_steps=2, num_train_epochs=200, report_to=[],
    eval_strategy="epoch", save_strategy="no", disable_tqdm=True, use_cpu=True,
)
Trainer(model, arguments, train_dataset=Data(), eval_dataset=Data()).train()
print("the end", file=__import__("sys").stderr)
"""


@pytest.mark.parametrize(
    ("package", "script", "micro"), [("lightning", LIGHTNING, 1), ("transformers", TRANSFORMERS, 2)]
)
def test_the_loop_of_a_framework_is_stepped_by_its_optimizer(
    package: str, script: str, micro: int, tmp_path: Path
) -> None:
    pytest.importorskip(package)
    (tmp_path / "learn.py").write_text(script)
    done = subprocess.run(
        [sys.executable, "-m", "laptime", "profile", "--steps", "3", "--json", "--no-save", "learn.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    assert "the end" not in done.stderr
    found = json.loads(done.stdout)
    assert found["overview"]["steps"] == 3
    parts = found["reconciled"]["parts_ns"]
    assert all(parts[name] > 0 for name in ("data", "forward", "backward", "optimizer"))
    losses = [row for row in found["operators"] if row["name"] == "aten::nll_loss_forward"]
    assert [row["calls"] for row in losses] == [3 * micro]
