"""`tune MODEL` on CUDA: the survey, folders that run there, harm that is refused, and a whole session."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from laptime.tuning.inference.changes import load
from laptime.tuning.inference.evaluator import ModelEvaluator
from laptime.tuning.inference.request import ModelRequest
from laptime.tuning.loop_profile import unmet_need
from laptime.tuning.optimization import Change, Recipe

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.torch,
    pytest.mark.device,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]

MODEL = """
import torch

def build():
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 64, 3), torch.nn.BatchNorm2d(64), torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(4), torch.nn.Flatten(), torch.nn.Linear(1024, 1024),
        torch.nn.ReLU(), torch.nn.Linear(1024, 10))
    return model, torch.randn(8, 3, 64, 64)
"""
CHANGES = (
    *("inference_mode", "channels_last", "fold_batch_norm", "compiled", "compiled_max_autotune"),
    *("cuda_graphs", "tf32", "bf16", "fp16", "weight_only_int8", "weight_only_int4"),
    *("tensorrt", "tensorrt_fp16"),
)


@pytest.fixture(scope="module")
def evaluator(tmp_path_factory: pytest.TempPathFactory) -> ModelEvaluator:
    folder = tmp_path_factory.mktemp("model")
    (folder / "model.py").write_text(MODEL)
    work = folder / "work"
    work.mkdir()
    request = ModelRequest(target=f"{folder}/model.py:build", goal="latency", device="cuda", timeout=300.0)
    return ModelEvaluator(request, work)


def test_the_survey_is_made_on_the_device(evaluator: ModelEvaluator) -> None:
    facts = set(evaluator.surveyed["facts"])
    assert evaluator.device == "cuda:0"
    assert {"cuda", "conv", "linear"} <= facts
    assert "cpu" not in facts
    assert evaluator.surveyed["devices"][0]["model"] == torch.cuda.get_device_properties(0).name


def test_a_call_is_timed_to_its_end_and_its_memory_is_the_devices(evaluator: ModelEvaluator) -> None:
    profile = evaluator.diagnose(Recipe())
    assert profile.device == "cuda:0"
    assert profile.step > 0
    assert profile.peak is not None
    # Weights alone are 4.3 MB; the whole device would be that of somebody else.
    assert 4 << 20 < profile.peak < torch.cuda.get_device_properties(0).total_memory // 2


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.timeout(600)
def test_every_change_computes_what_its_class_promises(name: str, evaluator: ModelEvaluator) -> None:
    module = load(name)
    for package in module.packages:
        pytest.importorskip(package)
    if unmet := unmet_need(module.needs, frozenset(evaluator.surveyed["facts"])):
        pytest.skip(unmet)
    gate = evaluator.gate(Recipe(), Recipe((Change(name),)), module.numerics)
    assert (gate.word, gate.numerics) == ("passed", module.numerics), gate


@pytest.mark.timeout(600)
def test_a_graph_of_compiled_kernels(evaluator: ModelEvaluator) -> None:
    """The package is loaded without its own synchronisation, which no graph could hold."""
    recipe = Recipe((Change("compiled"), Change("cuda_graphs")))
    gate = evaluator.gate(Recipe(), recipe, "reassociated")
    assert gate.word == "passed", gate


RIGHT = "return run(*given)"
SCALED = "return run(*given) * 1.01"
CACHED = "captured[:] = captured or [run(*given)]; return captured[0]"
ONE_BUFFER = (
    "made = run(*given); captured[:] = captured or [torch.empty_like(made)]; "
    "return captured[0].copy_(made) if made.shape == captured[0].shape else made"
)


@pytest.mark.parametrize(
    ("harm", "check"), [(SCALED, "outputs"), (CACHED, "held_out_inputs"), (ONE_BUFFER, "repeated")]
)
def test_planted_harm_is_refused_on_the_device(harm: str, check: str, evaluator: ModelEvaluator) -> None:
    recipe = Recipe((Change("inference_mode", {"harm": harm}),))
    tuned = evaluator.folders.ensure(recipe) / "tuned.py"
    text = tuned.read_text()
    assert text.count(RIGHT) == 1
    tuned.write_text(text.replace(RIGHT, harm))
    gate = evaluator.gate(Recipe(), recipe, "reassociated")
    assert gate.word == "failed", gate
    assert check in [each.name for each in gate.checks if each.outcome == "broken"], gate


@pytest.mark.timeout(420)
def test_a_session_hands_back_a_folder_that_verifies(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    environment = {**os.environ, "LAPTIME_HOME": str(tmp_path / "home")}

    def laptime(*words: str) -> tuple[int, Any]:
        command = [sys.executable, "-m", "laptime", *words, "--json"]
        done = subprocess.run(
            command, capture_output=True, check=False, timeout=300, cwd=tmp_path, env=environment
        )
        return done.returncode, json.loads(done.stdout) if done.stdout else done.stderr.decode()[-2000:]

    names = "inference_mode,cuda_graphs"
    words = ("--device", "cuda", "--only", names, "--budget", "3m", "--export", "fast", "--goal", "latency")
    status, found = laptime("tune", "model.py:build", *words)
    assert status in (0, 3, 5), found
    if status != 0:
        pytest.skip(f"nothing was handed back: {found['ended']}")
    assert json.loads((tmp_path / "fast" / "recipe.json").read_text())["device"] == "cuda:0"
    status, found = laptime("verify", "fast/recipe.json")
    assert status in (0, 3), found
    assert found["gate"]["word"] == "passed"
