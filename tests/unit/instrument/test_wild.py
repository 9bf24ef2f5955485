"""Training loops as the public writes them (examples/wild): steps are found, and counted as authors count."""

from __future__ import annotations

import re
import runpy
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("torchvision")
from fixtures.numerics_captures import capture

pytestmark = pytest.mark.torch
ROOT = Path(__file__).resolve().parents[3]
WILD = ROOT / "examples" / "wild"
SMALL = {
    "mnist": "--batch-size 4 --samples 64",
    "imagenet": "-b 2 --image 32",
    "nanogpt": "--batch_size 2 --block_size 8 --n_layer 1 --n_embd 16",
    "word_lstm": "--tokens 50 --width 8 --batch_size 2 --bptt 5 --words 400",
    "vae": "--batch-size 4 --width 8 --samples 64",
    "dcgan": "--batchSize 2 --ngf 2 --ndf 2 --samples 32",
    "siamese": "--batch-size 2 --samples 32",
    "sequences": "--length 4 --waves 3 --width 4",
    "lbfgs": "--length 4 --waves 3 --width 4",
    "gnn": "--nodes 20 --features 10 --hidden 4",
    "engine": "--batch-size 2 --img-size 32 --samples 32",
    "reference": "--batch-size 2 --size 32",
    "hf_trainer": "--batch-size 2 --samples 32 --length 8 --layers 1 --width 16 --vocabulary 50",
    "lightning_fit": "--batch-size 2 --samples 32 --size 8 --width 2",
}
"""Arguments that make each of them quick."""
LIBRARIES = {"hf_trainer": "transformers", "lightning_fit": "lightning"}
"""What a script needs that not every environment has."""
LARGE = {"siamese", "imagenet", "engine", "reference"}


def _marks(name: str) -> list[pytest.MarkDecorator]:
    """Slow, or skipped where its library is not installed."""
    library = LIBRARIES.get(name)
    marks = [pytest.mark.slow] * (name in LARGE)
    if library and find_spec(library) is None:
        marks.append(pytest.mark.skip(reason=f"{library} is not installed"))
    return marks


NAMES = [pytest.param(name, marks=_marks(name)) for name in SMALL]
OPTIMIZER_STEPS = {"dcgan": 2}
"""In one step as the author counts; 1 of all others."""
SAMPLES = {
    **{"imagenet": 2, "dcgan": 2, "siamese": 2, "vae": 4, "mnist": 4, "engine": 2, "reference": 2},
    **{"hf_trainer": 2, "lightning_fit": 2},
}
"""In one step, where a loader gives them."""


def training(name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The script as a function without arguments."""
    import torch

    monkeypatch.setattr(sys, "argv", [f"{name}.py", *SMALL[name].split()])
    monkeypatch.setattr("builtins.print", lambda *text, **more: None)
    torch.set_num_threads(1)
    return lambda: runpy.run_path(str(WILD / f"{name}.py"), run_name="__main__")


def test_each_has_a_fix_by_hand() -> None:
    names = sorted(path.stem for path in WILD.glob("*.py"))
    assert names == sorted(SMALL)
    assert len(names) == 14
    assert sorted(path.stem for path in (WILD / "by_hand").glob("*.patch")) == names


@pytest.mark.parametrize("name", NAMES)
def test_a_profile_finds_the_steps(
    name: str, observe: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    seen = observe(training(name, monkeypatch))
    assert seen.source == "optimizer"
    assert seen.seen["optimizer"] >= len(seen.untraced) * OPTIMIZER_STEPS.get(name, 1)
    assert len(seen.untraced) == 3
    assert seen.complete


@pytest.mark.parametrize("name", NAMES)
def test_a_diagnosis_finds_the_steps(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    seen = capture(training(name, monkeypatch), tmp_path, [], write=str(tmp_path / "base.pt"), steps=3)
    assert seen.steps == 3
    for step in seen.candidate.steps:
        assert step.optimizer_steps == OPTIMIZER_STEPS.get(name, 1)
        assert step.samples == SAMPLES.get(name, 0)
        assert step.shapes
        assert step.loss is not None


@pytest.mark.parametrize("tool", ["git", "patch"])
def test_fixes_by_hand_apply_from_the_root(tool: str, tmp_path: Path) -> None:
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed")
    shutil.copytree(WILD, tmp_path / "examples" / "wild")
    words = {"git": ["git", "apply"], "patch": ["patch", "--silent", "-p1", "-i"]}[tool]
    for diff in sorted((WILD / "by_hand").glob("*.patch")):
        done = subprocess.run([*words, str(diff)], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (diff.name, done.stderr, done.stdout)
    assert not list(tmp_path.rglob("*.rej"))
    for script in (tmp_path / "examples" / "wild").glob("*.py"):
        text = script.read_text()
        compile(text, script.name, "exec")
        assert text != (WILD / script.name).read_text()
        assert re.search(r"autocast|fused=True|set_num_threads|bf16", text)
