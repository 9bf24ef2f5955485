"""`laptime tune` on training scripts of many shapes, from the diagnosis to the patched script.

Every script in `tune_scripts/` is slow in one planted way: its optimizer's steps wait until they are fused.
So the gain is large and sure, and what is left to go wrong is the shape.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(__file__).with_name("tune_scripts")
EPOCHS = "3"
"""Of the script as it is and of the patched one, when they are compared by themselves."""

pytestmark = [pytest.mark.torch, pytest.mark.timeout(900)]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with all scripts, as their user has them."""
    home = tmp_path / "project"
    shutil.copytree(SCRIPTS, home, ignore=shutil.ignore_patterns("__pycache__"))
    return home


def environment(**more: str) -> dict[str, str]:
    clean = {k: v for k, v in os.environ.items() if k not in ("LAPTIME_HOME", "NO_COLOR", "FORCE_COLOR")}
    return clean | {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"} | more


def ended(place: Path, *words: str, seconds: float = 800) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words, cwd=place, env=environment(), capture_output=True, text=True, timeout=seconds
    )


def tuned(place: Path, *words: str) -> dict[str, Any]:
    """The document of a session that found the planted cause; on a busy machine, and where a library takes
    half a minute to import, it takes a second attempt."""
    asked = [sys.executable, "-m", "laptime", "tune", "--json", "--only", "identity,fused_optimizer"]
    done = ended(place, *asked, "--budget", "50s", *words)
    if done.returncode == 3:
        done = ended(place, *asked, "--budget", "8m", "--resume", *words)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    assert "Traceback" not in done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def loss(place: Path, *words: str) -> float:
    """What the script itself prints at its end."""
    done = ended(place, sys.executable, *words, EPOCHS)
    assert done.returncode == 0, done.stderr
    return float(done.stdout.split()[-1])


def check(place: Path, *words: str, edited: str) -> str:
    """Tuned, with a patch that applies to `edited` alone, and a patched script that trains the same.

    Returns:
        The patched source.
    """
    original = {path: path.read_bytes() for path in place.rglob("*.py")}
    before = loss(place, *words)
    document = tuned(place, *words)
    assert {path: path.read_bytes() for path in place.rglob("*.py")} == original
    (rung,) = [rung for rung in document["ladder"] if rung["name"] == "fused_optimizer"]
    assert rung["kept"], rung["reason"]
    assert rung["gate"]["word"] == "passed"
    assert document["speedup"]["value"] > 1.3
    assert document["speedup"]["word"] == "faster"
    patch = document["patch"]
    assert patch["hunks"] == ["fused_optimizer"], patch
    assert patch["applies"] is True
    assert patch["same_losses"] is True
    path = place / patch["path"]
    assert path.read_text() == patch["text"]
    for step in (["--check"], []):
        said = ended(place, "git", "apply", *step, str(path))
        assert said.returncode == 0, said.stderr
    changed = [path for path, text in original.items() if path.read_bytes() != text]
    assert changed == [place / edited]
    assert loss(place, *words) == pytest.approx(before, rel=1e-4, abs=1e-5)
    return changed[0].read_text()


def test_functions_are_tuned_and_patched(place: Path) -> None:
    source = check(place, "functions.py", edited="functions.py")
    assert "torch.optim.AdamW(model.parameters(), 1e-3, fused=True)" in source
    assert "# A small model." in source
    assert "# batch, shuffle" in source


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "call"),
    [
        ("with_argparse", "torch.optim.SGD(net.parameters(), lr=args.lr, momentum=0.9, fused=True)"),
        ("trainer", "torch.optim.SGD(params, lr=0.05, fused=True)"),
        ("two_inputs", "torch.optim.Adam(net.parameters(), lr=1e-2, fused=True)"),
        ("gan", "optim.Adam(netG.parameters(), lr=2e-4, fused=True)"),
        ("accumulation", "torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)"),
        ("iterable", "torch.optim.SGD(model.parameters(), lr=0.01, fused=True)"),
        ("autocast", "torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)"),
        ("compiled", "torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)"),
    ],
)
def test_a_shape_is_tuned_and_patched(place: Path, script: str, call: str) -> None:
    source = check(place, f"{script}.py", edited=f"{script}.py")
    assert call in source


@pytest.mark.slow
def test_a_module_of_a_package_is_patched_where_the_optimizer_is_made(place: Path) -> None:
    source = check(place, "-m", "package.train", edited="package/mod.py")
    assert "torch.optim.AdamW(net.parameters(), lr=1e-3, fused=True)" in source


@pytest.mark.slow
@pytest.mark.skipif(
    not (importlib.util.find_spec("lightning") or importlib.util.find_spec("pytorch_lightning")),
    reason="needs Lightning",
)
def test_lightning_is_tuned_and_patched(place: Path) -> None:
    source = check(place, "with_lightning.py", edited="with_lightning.py")
    assert "fused=True" in source


@pytest.mark.slow
@pytest.mark.skipif(not importlib.util.find_spec("transformers"), reason="needs transformers")
def test_hugging_face_is_tuned_and_patched(place: Path) -> None:
    source = check(place, "with_transformers.py", edited="with_transformers.py")
    assert "adamw_torch_fused" in source
