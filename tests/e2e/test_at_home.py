"""A notebook in a real kernel, and the pytest plugin as a wheel installs it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
CELLS = (
    "%load_ext laptime",
    "%laptime --budget 1 sum(range(10_000))",
    "%%laptime --budget 1\ntotal = 0\nfor number in range(1000):\n    total += number",
    """import laptime, torch
model = torch.nn.Linear(32, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

@laptime.profile(steps=2)
def train():
    for _ in range(2000):
        optimizer.zero_grad()
        model(torch.randn(8, 32)).sum().backward()
        optimizer.step()

train()""",
    "run = laptime.bench(model, torch.randn(8, 32), budget=1)\nrun",
    "%laptime --bugdet 1 sum(())",
)

pytestmark = pytest.mark.slow


def shown(cell: Any, kind: str) -> str:
    """All that a cell put out as this MIME type, or as `stdout` or `stderr`."""
    texts = [
        output["text"] if output["output_type"] == "stream" else output["data"].get(kind, "")
        for output in cell["outputs"]
        if output.get("name", kind) == kind
    ]
    return "".join(texts)


@pytest.mark.torch
def test_a_notebook_runs_and_shows_its_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import nbclient
    import nbformat

    monkeypatch.setenv("LAPTIME_HOME", str(tmp_path / "runs"))
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    nbclient.NotebookClient(book, timeout=200, resources={"metadata": {"path": str(tmp_path)}}).execute()
    if folder := os.environ.get("NOTEBOOK_OUT"):  # to look at it
        nbformat.write(book, Path(folder) / "notebook.ipynb")
    _, line, cell, profiled, benched, wrong = book.cells
    for measured in (line, cell, benched):
        assert "latency" in shown(measured, "text/html")
        assert "<script" not in shown(measured, "text/html")
        assert 0 < len(shown(measured, "text/plain").splitlines()) <= 5
    assert "a step" in shown(profiled, "stdout")
    assert "nothing was traced" not in shown(profiled, "stdout")
    assert len(shown(wrong, "stderr").strip().splitlines()) == 3


def test_a_wheel_brings_the_plugin(tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    wheels, site = tmp_path / "wheels", tmp_path / "site"
    source = tmp_path / "source"  # a build leaves folders beside the source
    shutil.copytree(
        ROOT / "src/laptime", source / "src/laptime", ignore=shutil.ignore_patterns("__pycache__")
    )
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    subprocess.run(
        [*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", str(wheels), str(source)], check=True
    )
    wheel = next(wheels.glob("laptime-*.whl"))
    subprocess.run([*pip, "install", "--no-deps", "--target", str(site), str(wheel)], check=True)
    (tmp_path / "test_it.py").write_text(
        "import laptime as package\n"
        "def test_sum(laptime):\n"
        f"    assert package.__file__.startswith({str(site)!r})\n"
        "    assert laptime(sum, range(1000)) == 499500\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--laptime-budget", "0.3", "test_it.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "test_sum" in done.stdout
    assert "1 passed" in done.stdout
