"""`laptime scale` on a real training with gloo: ranks started by torchrun, steps found, traced, stopped."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

pytestmark = [pytest.mark.torch, pytest.mark.slow]
SCRIPT = """
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

dist.init_process_group("gloo")
data = TensorDataset(torch.randn(4096, 64), torch.randint(10, (4096,)))
loader = DataLoader(data, batch_size=16, sampler=DistributedSampler(data))
model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for x, y in loader:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
"""


def test_one_and_two_ranks_of_a_real_training(
    here: Callable[..., CompletedProcess[str]], tmp_path: Path
) -> None:
    pytest.importorskip("torch")
    (tmp_path / "train.py").write_text(SCRIPT)
    options = ["--jobs", "1", "--steps", "10", "--warmup", "3", "--target", "0.5", "--usd-per-hour", "4"]
    done = here(tmp_path, "scale", "--ranks", "1,2", *options, "--json", "train.py")
    assert done.returncode == 3, done.stderr  # one job has no interval, so nothing is certain
    found = json.loads(done.stdout)
    cases = {(case["axes"]["ranks"], case["axes"]["scaling"]): case for case in found["run"]["cases"]}
    assert sorted(cases) == [(1, "weak"), (2, "strong"), (2, "weak")]
    facts = {point: case["details"]["ranks"] for point, case in cases.items()}
    assert {point: each["samples"] for point, each in facts.items()} == {
        (1, "weak"): 16,
        (2, "weak"): 32,
        (2, "strong"): 16,
    }
    assert all(each["epoch"] == 4096 and each["usd"] > 0 for each in facts.values())
    for point in ((2, "weak"), (2, "strong")):
        seen = facts[point]["exchange"]
        assert seen["collectives"] >= 5
        assert 0 <= seen["exposed_ns"] < seen["step_ns"]
    assert facts[1, "weak"]["exchange"] is None
    rates = {row["key"]: row["rate"]["value"] for row in found["rows"]}
    assert len(rates) == 3
    for case in cases.values():
        steps = next(series for series in case["series"] if series["metric"]["tag"] == "step")
        assert len(steps["samples"]) == 10
    assert found["target"]["word"] == "undecided"
    assert here(tmp_path, "list").stdout.count("samples") + here(tmp_path, "show", "last").stdout.count(
        "ranks"
    )
