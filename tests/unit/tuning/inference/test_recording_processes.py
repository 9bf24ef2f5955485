"""Real sessions and real recordings of a tiny model, each in processes of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from laptime.records.overview import CallBounds
from laptime.tuning.inference.evaluator import ModelEvaluator
from laptime.tuning.inference.recording import recordings
from laptime.tuning.inference.request import ModelRequest
from laptime.tuning.inference.setups import Setup
from laptime.tuning.inference.subject import tune_model
from laptime.tuning.optimization import Change, Recipe

pytestmark = [pytest.mark.torch, pytest.mark.slow]

MODEL = """
import torch

def build():
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.BatchNorm2d(16), torch.nn.ReLU(),
        torch.nn.MaxPool2d(2), torch.nn.Flatten(), torch.nn.Linear(4096, 10))
    return model, torch.randn(2, 3, 32, 32)
"""
CONVOLUTION = 2 * (2 * 16 * 32 * 32) * (3 * 3 * 3)


@pytest.fixture
def target(tmp_path: Path) -> str:
    path = tmp_path / "model.py"
    path.write_text(MODEL)
    return f"{path}:build"


def sound(side: CallBounds | None, recorder: str) -> CallBounds:
    assert side is not None
    assert side.missing == ""
    assert side.recorder.startswith(recorder)
    assert side.call > 0
    assert side.recorded > 0
    assert sum(side.reasons.values()) <= 1 + 1e-6
    assert side.roofline is not None
    assert side.roofline.ceilings is not None
    return side


def test_a_session_says_what_bounds_the_model(target: str) -> None:
    run = tune_model(ModelRequest(target=target, budget=60.0, only=["inference_mode"], goal="latency"))
    assert run.tuning is not None
    assert run.tuning.model is not None
    assert run.tuning.model.bounds is not None
    before = sound(run.tuning.model.bounds.before, "torch.profiler")
    assert before.roofline is not None
    flop = {work.kind: sum(work.flop.values()) for work in before.roofline.classes}
    assert flop["convolution"] == CONVOLUTION
    assert (run.tuning.model.bounds.after is None) == (not run.tuning.recipe)


@pytest.mark.parametrize(
    ("change", "package", "recorder"),
    [
        ("channels_last", "torch", "torch.profiler"),
        ("onnxruntime", "onnxruntime", "ONNX Runtime"),
        ("openvino", "openvino", "OpenVINO"),
    ],
)
def test_every_runtime_is_recorded(
    target: str, tmp_path: Path, change: str, package: str, recorder: str
) -> None:
    pytest.importorskip(package)
    home = tmp_path / "session"
    home.mkdir()
    evaluator = ModelEvaluator(ModelRequest(target=target, budget=600.0), home)
    recipe = Recipe((Change(change),))
    with evaluator.arm(recipe) as arm:
        evaluator.time_calls(recipe, arm, 5)
        evaluator.time_calls(Recipe(), arm, 5)
    both = recordings.model_bounds(evaluator, recipe, Setup(batch=evaluator.batch), (None, None))
    after = sound(both.after, recorder)
    assert after.roofline is not None
    flop = {work.kind: sum(work.flop.values()) for work in after.roofline.classes}
    assert flop["convolution"] == CONVOLUTION
