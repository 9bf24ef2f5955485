"""Tuning on CUDA: what it finds on the naive example, and what only a device can show of trials and gates."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from laptime.records.tuning import Gate
from laptime.tuning.optimization import Recipe
from laptime.tuning.script.request import TuneRequest, choice_of, program_of
from laptime.tuning.script.trial_evaluator import TrialEvaluator
from laptime.tuning.script.trial_runner import TrialRunner

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.torch,
    pytest.mark.device,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]
EXAMPLE = Path(__file__).parents[2] / "examples" / "resnet18.py"
SCRIPT = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
data = TensorDataset(torch.randn(512, 3, 32, 32), torch.randint(0, 10, (512,)))
loader = DataLoader(data, batch_size=64, shuffle=True)
model = nn.Sequential(
    nn.Conv2d(3, 64, 3), nn.BatchNorm2d(64), nn.ReLU(), nn.Conv2d(64, 128, 3, stride=2), nn.ReLU(),
    nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10),
).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
for epoch in range(10_000):
    for images, labels in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
        loss.backward()
        optimizer.step()
"""


def of(*names: str) -> Recipe:
    return Recipe.from_json([{"name": name} for name in names])


@pytest.fixture
def evaluator(tmp_path: Path) -> TrialEvaluator:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    request = TuneRequest(program=str(script))
    folder = tmp_path / "work"
    folder.mkdir()
    runner = TrialRunner(program_of(request), folder, timeout=120.0)
    evaluator = TrialEvaluator(runner, choice_of(request))
    evaluator.diagnose(Recipe())
    return evaluator


def test_a_diagnosis_on_the_device(evaluator: TrialEvaluator) -> None:
    found = evaluator.loop_profile
    assert found is not None
    assert found.device.startswith("cuda")
    assert found.enqueue is not None
    assert found.enqueue < found.step * 1.5
    assert {"whole", "cached", "on_device"} <= set(found.what_if)
    assert found.what_if["on_device"] <= found.what_if["whole"] * 1.1
    assert sum(found.shares.values()) == pytest.approx(found.step, rel=0.02)
    assert found.device_memory is not None
    assert found.peak is not None
    assert 0 < found.details["busy"] <= found.step * 1.1


def test_arms_that_are_flipped_are_timed_by_the_device(evaluator: TrialEvaluator) -> None:
    """Matrix products at half precision on tensor cores are quicker; the launch alone would be the same."""
    rounds: Any = evaluator.race(Recipe(), of("channels_last", "bf16_autocast"))
    ratios = [next(rounds).ratio for _ in range(5)]
    rounds.close()
    assert all(0.05 < ratio < 5 for ratio in ratios)
    # The synchronised block is never shorter than what the device worked in it.
    busy = evaluator.loop_profile.details["busy"] if evaluator.loop_profile else 0.0
    side = evaluator.runner.time_trial(Recipe(), 0)
    assert sum(side.seconds) / len(side.seconds) >= 0.8 * busy


def test_the_peak_is_that_of_the_devices_allocator(evaluator: TrialEvaluator) -> None:
    side = evaluator.runner.time_trial(Recipe(), 0)
    assert side.result.device == "cuda"
    assert side.result.peak is not None
    assert 1 << 20 < side.result.peak < torch.cuda.get_device_properties(0).total_memory


def gate(evaluator: TrialEvaluator, numerics: str, *names: str) -> Gate:
    return evaluator.gate(Recipe(), of(*names), numerics)


@pytest.mark.parametrize(
    ("numerics", "name"),
    [
        ("reassociated", "channels_last"),
        ("reassociated", "fused_optimizer"),
        ("precision", "bf16_autocast"),
        ("precision", "tf32"),
        ("precision", "fp16_autocast"),
    ],
)
def test_honest_changes_pass_their_gate(evaluator: TrialEvaluator, numerics: str, name: str) -> None:
    found = gate(evaluator, numerics, name)
    assert found.word == "passed", f"{name}: {found.reason}"
    assert found.steps >= 2


def test_planted_harm_is_caught_on_the_device(evaluator: TrialEvaluator, tmp_path: Path) -> None:
    harm = tmp_path / "harm.py"
    harm.write_text(
        "from laptime.tuning.optimization import Optimization\n"
        "def apply(loop, options): loop.backward(lambda root: root * 0.5)\n"
        "def edit(script, options): pass\n"
        "OPTIMIZATION = Optimization(title='harm', numerics='reassociated', live=True, gives=frozenset(),\n"
        "    saves=lambda loop_profile, options: 1.0, apply=apply, edit=edit)\n"
    )
    found = gate(evaluator, "reassociated", str(harm))
    assert found.word == "failed"
    assert "norm" in found.reason


def test_the_scaler_of_fp16_skips_no_step_for_ever(evaluator: TrialEvaluator) -> None:
    """Its first scale may overflow; after a few steps the optimizer has to step."""
    side = evaluator.runner.time_trial(of("fp16_autocast"), 0, rounds=4)
    assert side.result.refused == []
    assert side.result.error == ""
    assert all(loss == loss for loss in side.losses)  # no NaN
    assert side.losses[-1] < side.losses[0] * 1.5


def test_expandable_segments_from_the_start_of_a_process(evaluator: TrialEvaluator) -> None:
    side = evaluator.runner.time_trial(of("expandable_segments"), 0)
    assert side.result.refused == []
    assert side.result.left == []
    assert side.seconds


@pytest.mark.timeout(420)
def test_the_example_is_tuned_unmodified(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "laptime", "tune", "--json", "--budget", "5m"]
    command += ["--patch", str(tmp_path / "x.patch"), str(EXAMPLE), "--images", "2000", "--epochs", "1000"]
    environment = {**os.environ, "LAPTIME_HOME": str(tmp_path / "home")}
    done = subprocess.run(
        command, capture_output=True, check=False, timeout=400, cwd=tmp_path, env=environment
    )
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    found = json.loads(done.stdout)
    assert found["bound"]["before"] == "data"
    assert found["diagnosis"]["before"]["utilization"] > 0
    kept = {rung["name"]: rung for rung in found["ladder"] if rung.get("kept")}
    tried = {rung["name"] for rung in found["ladder"]}
    assert {"num_workers", "uint8_transfer", "cache_dataset"} & set(kept)
    assert {"pin_memory", "prefetch_to_device"} & tried
    assert {"bf16_autocast", "tf32", "fp16_autocast"} & tried
    assert {"channels_last", "compile"} & tried
    assert found["speedup"]["value"] > 2
    assert found["gate"]["word"] == "passed"
    assert any(rung.get("utilization") for rung in kept.values())
