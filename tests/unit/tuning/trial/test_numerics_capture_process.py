"""The numerics of a script captured in processes of its own, as `tune` does it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from laptime.tuning.gates.verdict import judge
from laptime.tuning.script.trial_process import start
from laptime.tuning.trial.messages import CapturePlan, NumericsComparison, TrialPlan
from laptime.tuning.trial.numerics.captured_inputs import BATCHES

pytestmark = [pytest.mark.torch, pytest.mark.slow]

SCRIPT = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def main():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    data = TensorDataset(torch.randn(22, 3, 8, 8), torch.randint(0, 2, (22,)))
    for epoch in range(100):
        for images, labels in DataLoader(data, batch_size=4, shuffle=True):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()


if __name__ == "__main__":
    main()
"""


def trial(folder: Path, script: Path, changes: list[str], **plan: Any) -> NumericsComparison:
    base = [{"name": name, "options": {}} for name in changes]
    trial_plan = TrialPlan(folder=str(folder), mode="gate", base=base, seed=1, capture=CapturePlan(**plan))
    with start([str(script)], python=sys.executable, plan=trial_plan, timeout=120) as running:
        running.wait()
        found = running.finish()
        assert found.ended == "stopped", found
        assert not found.left
        document = running.document(NumericsComparison)
    assert document is not None
    return document


def test_fresh_processes_agree_and_harm_is_seen(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    base = str(tmp_path / "base.pt")
    given: dict[str, Any] = {"batches": str(tmp_path / "batches.pt"), "steps": 2}
    harm = Path(__file__).parents[3] / "honesty" / "harm"
    trial(tmp_path / "base", script, [], write=base, **given)
    same = trial(tmp_path / "same", script, ["identity"], compare=base, **given)
    assert judge(["exact"], same).word == "passed"
    scaled = trial(tmp_path / "scaled", script, [str(harm / "loss_scale.py")], compare=base, **given)
    gate = judge(["precision"], scaled)
    assert gate.reason.startswith("gradient norm: step 1: the norm of all gradients is 4 times")

    epoch = str(tmp_path / "samples.pt")
    trial(tmp_path / "samples", script, [], write=epoch, samples=BATCHES)
    dropped = trial(
        tmp_path / "dropped", script, [str(harm / "dropped_batch.py")], compare=epoch, samples=BATCHES
    )
    found = judge(["exact"], same, samples=dropped)
    assert "20 samples an epoch, 22" in found.reason
