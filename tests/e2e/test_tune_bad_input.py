"""Every way to ask `laptime tune` for what cannot be, as a user types it: three lines, and the exit code."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from fixtures.command_lines import OWN_VARIABLES
from laptime.tuning.script.trial_runner import TrialRunner

Ended = subprocess.CompletedProcess[str]
Tune = Callable[..., Ended]
VARIABLES = {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}

TRAINING = """
import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
{before}
model = {model}
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(TensorDataset(torch.randn(64, 4)), batch_size=4)
for epoch in range({epochs}):
    for (x,) in loader:
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        {inside}
{behind}
"""


def training(
    *, before: str = "", inside: str = "", behind: str = "", model: str = "nn.Linear(4, 1)", epochs: int = 500
) -> str:
    """A loop of small steps, with something wrong in it."""
    indented = textwrap.indent(textwrap.dedent(inside), " " * 8).strip()
    return TRAINING.format(
        before=textwrap.dedent(before),
        inside=indented,
        behind=textwrap.dedent(behind),
        model=model,
        epochs=epochs,
    )


def tune_process(cwd: Path, *words: str) -> Ended:
    """In a process of its own, as a user types it."""
    clean = {k: v for k, v in os.environ.items() if k not in OWN_VARIABLES}
    return subprocess.run(
        [sys.executable, "-m", "laptime", "tune", *words],
        cwd=cwd,
        env=clean | VARIABLES,
        capture_output=True,
        text=True,
        input="",
        timeout=280,
    )


@pytest.fixture
def tune(here: Tune, monkeypatch: pytest.MonkeyPatch) -> Tune:
    """`laptime tune` in this process; the script itself runs in one of its own, as always."""
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    return lambda folder, *words: here(folder, "tune", *words)


def three_lines(ended: Ended, code: int, *words: str) -> None:
    assert ended.returncode == code, ended.stdout + ended.stderr
    assert ended.stdout == ""
    lines = ended.stderr.splitlines()
    assert [line.split(":")[0] for line in lines] == ["error", "why", "next"], ended.stderr
    for word in words:
        assert word in ended.stderr, ended.stderr


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """A script that would train."""
    path = tmp_path / "train.py"
    path.write_text(training())
    return path


# What is refused before anything runs.


def test_a_script_that_is_not_there(script: Path) -> None:
    three_lines(tune_process(script.parent, "trian.py"), 2, "trian.py", "train.py")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--only", "num_worker", "train.py"), "num_workers"),
        (("--skip", "chanels_last", "train.py"), "channels_last"),
        (("--onyl", "num_workers", "train.py"), "--only"),
        (("--only", "compile", "--skip", "compile", "train.py"), "is given to both --only and --skip"),
        (("--budget", "soon", "train.py"), "--budget"),
        (("--max-memory", "much", "train.py"), "--max-memory"),
        (("--goal", "fame", "train.py"), "--goal"),
        (("--allow", "anything", "train.py"), "algorithm"),
        (("--with", "nothing.py", "train.py"), "nothing.py"),
        (("-o", "report.xyz", "train.py"), "report.xyz"),
        (("-o", "no/folder/report.html", "train.py"), "no/folder"),
        (("--patch", "no/folder/t.patch", "train.py"), "no/folder"),
        (("--resume", "train.py"), "--resume"),
        ((), "SCRIPT"),
        (("null:spin=2ms",), "neither a PyTorch model nor an ONNX file"),
        (("--patch", "t.patch", "torchvision:resnet18"), "--patch is for training scripts"),
        (("torchvision:resnet18", "--epochs"), "there is no option --epochs"),
        (("--goal", "cost", "train.py"), "--goal cost is for models"),
        (("--strict", "--allow", "precision", "torchvision:resnet18"), "contradict"),
        (("--only", "chanels_last", "torchvision:resnet18"), "channels_last"),
        (("--export", ".", "torchvision:resnet18"), "exists already"),
        (("--export", "no/folder/fast", "torchvision:resnet18"), "there is no folder"),
        (("--batch", "8", "train.py"), "--batch is for models"),
        (("--export", "fast", "train.py"), "--export is for models"),
        (("--goal", "latency", "train.py"), "--goal latency is for models"),
        (("--allow", "precision", "train.py"), "--allow precision is for models"),
        (("-m", "no_such_module"), "no_such_module"),
        (("--python", "/no/python", "train.py"), "/no/python"),
    ],
    ids=lambda value: "_".join(value) if isinstance(value, tuple) else "",
)
def test_wrong_use_costs_no_time(tune: Tune, script: Path, words: tuple[str, ...], said: str) -> None:
    three_lines(tune(script.parent, *words), 2, said)
    assert [path.name for path in script.parent.iterdir() if path.name != ".laptime"] == ["train.py"]


def test_a_broken_optimization_of_ones_own_is_named(tune: Tune, script: Path) -> None:
    (script.parent / "own.py").write_text("1 / 0\n")
    three_lines(tune(script.parent, "--with", "own.py", "train.py"), 2, "own.py", "ZeroDivisionError")


def test_a_file_that_is_no_optimization_is_told_what_to_write(tune: Tune, script: Path) -> None:
    (script.parent / "own.py").write_text("TITLE = 'mine'\n")
    three_lines(tune(script.parent, "--with", "own.py", "train.py"), 2, "own.py", "OPTIMIZATION =")


# Scripts that do not train.


def test_a_script_without_torch(tune: Tune, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('hello')\n")
    three_lines(tune(tmp_path, "train.py"), 2, "no training was found in train.py", "profile")


@pytest.mark.torch
def test_a_script_that_never_trains(tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused before torch is imported for its races."""
    monkeypatch.setattr(TrialRunner, "prepare", lambda runner: pytest.fail("races were prepared"))
    text = "import torch\nfor _ in range(50):\n    torch.nn.Linear(4, 1)(torch.randn(2, 4))\n"
    (tmp_path / "train.py").write_text(text)
    three_lines(tune(tmp_path, "train.py"), 2, "train.py", "laptime profile")


@pytest.mark.torch
def test_a_script_that_ends_before_the_warm_up(tune: Tune, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(training(inside="if optimizer: sys.exit()"))
    three_lines(tune(tmp_path, "train.py"), 2, "steps")


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize("steps", [2, 8, 20])
def test_a_script_of_few_steps(tune: Tune, tmp_path: Path, steps: int) -> None:
    inside = f"steps = globals().get('steps', 0) + 1\nif steps == {steps}: sys.exit()"
    (tmp_path / "train.py").write_text(training(inside=inside))
    done = tune(tmp_path, "--budget", "60s", "--only", "set_to_none", "train.py")
    assert "Traceback" not in done.stderr
    if done.returncode == 2:
        three_lines(done, 2, "steps")
    else:
        assert done.returncode in (3, 5), done.stderr


# Scripts that fail.


@pytest.mark.torch
def test_a_dataset_that_is_not_there(tune: Tune, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(training(before="open('data/train.csv')"))
    three_lines(tune(tmp_path, "train.py"), 4, "did not find its data", "data/train.csv")


@pytest.mark.torch
def test_an_exception_in_the_middle_is_told_by_its_last_line(tune: Tune, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(training(inside="raise ValueError('the planted mistake')"))
    three_lines(tune(tmp_path, "train.py"), 4, "train.py failed", "ValueError: the planted mistake")


def test_a_script_that_cannot_be_parsed(tune: Tune, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("def (:\n")
    three_lines(tune(tmp_path, "train.py"), 4, "SyntaxError")


def test_a_library_that_is_not_installed(tune: Tune, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import no_such_torch_library\n")
    three_lines(tune(tmp_path, "train.py"), 4, "train.py failed", "no_such_torch_library")


def test_torch_that_is_not_installed(tune: Tune, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("raise ModuleNotFoundError(\"No module named 'torch'\")\n")
    ended = tune(tmp_path, "train.py")
    three_lines(ended, 2, "could not import torch", "laptime tune --python PYTHON train.py")


def test_a_script_that_reads_standard_input(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("epochs = int(input('epochs? '))\n")
    three_lines(tune_process(tmp_path, "train.py"), 4, "reads from standard input", "arguments")


def test_a_script_that_wants_arguments(tune: Tune, tmp_path: Path) -> None:
    text = "import argparse\np = argparse.ArgumentParser()\np.add_argument('data')\np.parse_args()\n"
    (tmp_path / "train.py").write_text(text)
    three_lines(tune(tmp_path, "train.py"), 4, "did not take its arguments")


def test_a_script_that_is_killed(tune: Tune, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n")
    three_lines(tune(tmp_path, "train.py"), 4, "SIGSEGV")


def test_a_script_that_hangs(tune: Tune, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import time\ntime.sleep(1000)\n")
    three_lines(
        tune(tmp_path, "--timeout", "2s", "train.py"), 4, "did not finish its first steps", "--timeout"
    )


@pytest.mark.torch
def test_a_limit_of_memory_that_is_too_small(tune: Tune, script: Path) -> None:
    three_lines(
        tune(script.parent, "--max-memory", "100MB", "train.py"), 4, "memory", "0.10 GB", "--max-memory"
    )


# Scripts on several devices, or of several processes.


@pytest.mark.torch
def test_data_parallel(tune: Tune, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(training(model="nn.DataParallel(nn.Linear(4, 1))"))
    three_lines(tune(tmp_path, "train.py"), 2, "DataParallel", "CUDA_VISIBLE_DEVICES")


@pytest.mark.torch
def test_a_script_that_spawns_its_own_training_processes(tune: Tune, tmp_path: Path) -> None:
    body = textwrap.indent(training(epochs=20), "    ")
    main = """
if __name__ == '__main__':
    import torch.multiprocessing as mp
    mp.spawn(train, nprocs=2)
"""
    (tmp_path / "train.py").write_text(f"def train(rank):\n{body}{main}")
    three_lines(tune(tmp_path, "train.py"), 2, "starts other processes that train", "torchrun")


# What is the user's stays as it is.


@pytest.mark.torch
@pytest.mark.parametrize("asked", ["--dry-run", pytest.param("--steps=20", marks=pytest.mark.slow)])
def test_files_of_the_script_are_not_touched(tune: Tune, tmp_path: Path, asked: str) -> None:
    before = """
        import json, os, pathlib, shutil
        pathlib.Path('out').mkdir(exist_ok=True)
        log = open('out/log.txt', 'a')
    """
    inside = """
        log.write('x')
        torch.save(model.state_dict(), 'out/last.pt')
        os.replace('out/last.pt', 'out/best.pt')
        pathlib.Path('out/new.json').write_text(json.dumps({}))
        shutil.rmtree('out/old', ignore_errors=True)
    """
    (tmp_path / "train.py").write_text(training(before=before, inside=inside))
    (tmp_path / "out" / "old").mkdir(parents=True)
    (tmp_path / "out" / "old" / "1.pt").write_bytes(b"old")
    for name in ("last.pt", "best.pt", "log.txt"):
        (tmp_path / "out" / name).write_bytes(name.encode())
    seen = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    bytes_of = {path: path.read_bytes() for path in seen}
    ended = tune(tmp_path, asked, "--budget", "2m", "--only", "fused_optimizer", "train.py")
    assert ended.returncode in (0, 3, 5), ended.stderr
    left = {path for path in tmp_path.rglob("*") if path.is_file()}
    left = {path for path in left if ".laptime" not in str(path.relative_to(tmp_path))}
    assert left == set(seen)
    assert {path: path.read_bytes() for path in left} == bytes_of
    assert {path: path.stat().st_mtime_ns for path in left} == seen
