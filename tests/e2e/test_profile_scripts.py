"""`laptime profile` on scripts as people write them, each in a process of its own."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from laptime.store import lookup

pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.slow]
LAPTIME = [sys.executable, "-m", "laptime"]
QUICK = ["--wait", "1", "--warmup", "1", "--steps", "2"]

SCRIPT = '''
"""Trains."""
import argparse
import os
import re
import sys
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

DEVICE_OF_MAIN = __name__


def loss_of(model, x, y):
    return nn.functional.cross_entropy(model(x), y)


class Data(torch.utils.data.Dataset):
    """Needs this module's name in spawned workers."""

    def __len__(self):
        return 64

    def __getitem__(self, index):
        if torch.utils.data.get_worker_info() is not None:  # no hooks in workers
            assert nn.Module.__call__ is nn.Module._wrapped_call_impl
            assert "__call__" not in vars(nn.Sequential)
        return torch.randn(4), index % 2


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5000)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--spawn", action="store_true")
    parser.add_argument("--fail-at", type=int, default=-1)
    parser.add_argument("--exit-at", type=int, default=-1)
    parser.add_argument("--swallow", action="store_true")
    asked = parser.parse_args()
    print("argv", sys.argv[1:], "file", __file__, "path", sys.path[0], "cwd", os.getcwd())
    print("to stderr", file=sys.stderr)
    context = "spawn" if asked.spawn else None
    train = DataLoader(Data(), batch_size=8, num_workers=asked.workers, multiprocessing_context=context)
    valid = DataLoader(TensorDataset(torch.randn(16, 4)), batch_size=8)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    done = 0
    for epoch in range(asked.epochs):
        for x, y in train:
            try:
                if done == asked.fail_at:
                    raise ValueError("planted")
                if done == asked.exit_at:
                    sys.exit(3)
                optimizer.zero_grad()
                loss_of(model, x, y).backward()
                optimizer.step()
                done += 1
            except Exception:
                if not asked.swallow:
                    raise
        with torch.no_grad():
            for (x,) in valid:
                model(x)
    print("the end")


if __name__ == "__main__":
    main()
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(SCRIPT)
    return tmp_path


def laptime(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    known = {k: v for k, v in os.environ.items() if k not in ("LAPTIME_HOME", "NO_COLOR", "FORCE_COLOR")}
    return subprocess.run(
        [*LAPTIME, *arguments],
        cwd=cwd,
        env={**known, **environment},
        capture_output=True,
        text=True,
        timeout=280,
    )


def document(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_script_is_profiled_shown_and_kept(folder: Path) -> None:
    done = laptime("profile", *QUICK, "-o", "r.html", "train.py", "--epochs", "4000", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert f"argv ['--epochs', '4000'] file {folder}/train.py path {folder} cwd {folder}" in done.stdout
    assert re.search(r"^profile .*\n\S+-bound", done.stdout, re.MULTILINE)
    assert "to stderr" in done.stderr
    assert "the end" not in done.stdout
    assert (folder / "r.html").stat().st_size > 10_000
    run = lookup.load("last", folder / ".laptime")
    assert (run.verb, run.status, run.subjects[0].target) == ("profile", "complete", "train.py")
    assert run.profile is not None
    assert run.profile.overview.steps == 2
    beside = run.profile.reconciled
    assert beside is not None
    assert sum(beside.parts_ns.values()) == beside.untraced_ns
    assert set(beside.parts_ns) == {"data", "forward", "backward", "optimizer", "other"}
    assert beside.untraced_steps == len(run.cases[0].series[0].samples) >= 5
    assert beside.threads_busy is not None
    (artifact,) = run.cases[0].artifacts
    assert (folder / artifact.path).stat().st_size == artifact.size
    phases = {phase.name for phase in run.profile.overview.phases}
    assert {"data", "forward", "backward", "optimizer"} <= phases
    assert any("Linear" in module.name for module in run.profile.modules)


def test_json_is_the_only_thing_on_stdout_and_workers_are_not_observed(folder: Path) -> None:
    done = laptime(
        "profile", *QUICK, "--json", "--no-save", "train.py", "--workers", "2", "--spawn", cwd=folder
    )
    found = document(done)
    assert found["reconciled"]["untraced_steps"] >= 5
    assert "argv" in done.stderr
    assert not (folder / ".laptime").exists()
    forked = laptime("profile", *QUICK, "--json", "train.py", "--workers", "2", cwd=folder)
    assert document(forked)["reconciled"]["loader_wait_ns"] > 0


def test_a_module_runs_as_python_m_would(folder: Path) -> None:
    package = folder / "pkg"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "learn.py").write_text("from pkg import train\nprint(__name__, __spec__.name)\ntrain.main()\n")
    (package / "train.py").write_text(SCRIPT)
    done = laptime("profile", *QUICK, "-m", "pkg.learn", "--epochs", "4000", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "__main__ pkg.learn" in done.stdout
    assert f"path {folder} cwd {folder}" in done.stdout


def test_every_rank_of_torchrun_writes_its_trace(folder: Path) -> None:
    (folder / "ranks.py").write_text(
        SCRIPT.replace(
            "    done = 0\n",
            "    torch.distributed.init_process_group('gloo')\n    done = 0\n"
            "    model = nn.parallel.DistributedDataParallel(model)\n",
        )
    )
    done = laptime(
        "profile",
        *QUICK,
        "--json",
        "torchrun",
        "--standalone",
        "--nproc-per-node",
        "2",
        "ranks.py",
        cwd=folder,
        OMP_NUM_THREADS="1",
    )
    found = document(done)
    assert [row["rank"] for row in found["ranks"]] == [0, 1]
    assert len(list((folder / ".laptime").glob("runs/*/*.traces/rank[01].*.gz"))) == 2


DDP = """
import os
import re
import torch
from torch import distributed, multiprocessing, nn

def learn(rank, world):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29517")
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", rank=rank, world_size=world)
    model = nn.parallel.DistributedDataParallel(nn.Linear(8, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(5000):
        optimizer.zero_grad()
        model(torch.randn(4, 8)).sum().backward()
        optimizer.step()
    print("the end")

if __name__ == "__main__":
    multiprocessing.spawn(learn, args=(2,), nprocs=2)
    print("joined")
"""


def test_ranks_that_the_script_starts_itself_are_observed(folder: Path) -> None:
    (folder / "ddp.py").write_text(DDP)
    done = laptime("profile", *QUICK, "--json", "--no-save", "ddp.py", cwd=folder)
    assert [row["rank"] for row in document(done)["ranks"]] == [0, 1]
    assert "joined" in done.stderr
    assert "the end" not in done.stderr


def test_a_script_that_takes_too_long_is_interrupted_and_tells_what_was_measured(folder: Path) -> None:
    (folder / "slow.py").write_text(
        "import time\n" + SCRIPT.replace("done += 1", "done += 1; time.sleep(2.0)")
    )
    done = laptime("profile", "--timeout", "25s", "slow.py", "--epochs", "999", cwd=folder)
    assert done.returncode == 4, done.stderr
    assert "after 25 s" in done.stderr
    run = lookup.load("last", folder / ".laptime")
    assert (run.status, run.cases[0].status) == ("failed", "failed")
    assert run.cases[0].series[0].samples


def test_a_script_that_fails_is_four_and_keeps_its_traceback(folder: Path) -> None:
    done = laptime("profile", *QUICK, "train.py", "--fail-at", "5", cwd=folder)
    assert done.returncode == 4
    shown = done.stderr.partition("Traceback (most recent call last):")[2]
    assert "ValueError: planted" in shown
    assert "laptime/instrument/program" not in shown
    assert '/train.py", line' in shown
    assert "error: train.py failed\nwhy:   ValueError: planted" in done.stderr
    run = lookup.load("last", folder / ".laptime")
    assert run.status == "failed"
    assert run.cases[0].failure is not None
    assert "ValueError: planted" in run.cases[0].failure.traceback
    assert len(run.cases[0].series[0].samples) == 3  # of five steps one found the optimizer, one settled


def test_sys_exit_is_respected_before_and_after_the_steps_were_found(folder: Path) -> None:
    early = laptime("profile", *QUICK, "train.py", "--exit-at", "0", cwd=folder)
    assert early.returncode == 4
    assert "status 3" in early.stderr
    late = laptime("profile", *QUICK, "train.py", "--exit-at", "6", cwd=folder)
    assert late.returncode == 4
    assert "nothing was" in late.stdout


def test_a_script_that_ends_too_early_tells_what_was_measured(folder: Path) -> None:
    done = laptime("profile", "train.py", "--epochs", "1", cwd=folder)
    assert done.returncode == 3, done.stderr  # invalid: nothing was traced
    assert "the end" in done.stdout
    assert "script ended" in done.stdout
    assert "step took" in laptime("show", "last", "--details", cwd=folder).stdout
    assert len(lookup.load("last", folder / ".laptime").cases[0].series[0].samples) >= 3
    for name in ("r.html", "r.md", "r.json"):
        assert laptime("show", "last", "-o", name, cwd=folder).returncode == 0


def test_a_script_that_swallows_exceptions_is_ended(folder: Path) -> None:
    assert laptime("profile", *QUICK, "train.py", "--swallow", cwd=folder).returncode == 0
    (folder / "stubborn.py").write_text(SCRIPT.replace("except Exception:", "except BaseException:"))
    done = laptime("profile", *QUICK, "--no-save", "stubborn.py", "--swallow", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^profile .*\n\S+-bound", done.stdout, re.MULTILINE)


def test_a_script_without_steps_is_told_what_was_looked_for(folder: Path) -> None:
    (folder / "plain.py").write_text("print(sum(range(9)))")
    done = laptime("profile", "plain.py", cwd=folder)
    assert (done.returncode, done.stdout) == (2, "36\n")
    assert "not use" in done.stderr
    (folder / "once.py").write_text("import torch\ntorch.nn.Linear(1, 1)(torch.ones(1))")
    done = laptime("profile", "once.py", cwd=folder)
    assert done.returncode in (2, 3)


def test_what_is_missing_is_told_in_three_lines(folder: Path) -> None:
    done = laptime("profile", "trian.py", cwd=folder)
    assert done.returncode == 2
    assert "trian.py" in done.stderr.splitlines()[0]
    assert done.stderr.splitlines()[-1] == "next:  laptime profile train.py"
    done = laptime("profile", "--python", "/no/python", "train.py", cwd=folder)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 3


def test_an_interpreter_without_torch_is_named(folder: Path) -> None:
    bare = folder / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True)
    done = laptime("profile", "--python", str(bare / "bin/python"), "train.py", cwd=folder)
    assert done.returncode == 2
    assert "not import" in done.stderr
    assert "--python" in done.stderr.splitlines()[-1]


def test_ctrl_c_keeps_what_was_measured(folder: Path) -> None:
    (folder / "long.py").write_text(
        SCRIPT.replace("    done = 0\n", "    import time\n    done = 0\n").replace(
            "                done += 1\n", "                done += 1\n                time.sleep(0.05)\n"
        )
    )
    process = subprocess.Popen(
        [*LAPTIME, "profile", "--wait", "2", "--steps", "500", "long.py", "--epochs", "9999"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stderr is not None
    while "found by" not in process.stderr.readline():
        pass
    time.sleep(1.0)
    os.killpg(process.pid, signal.SIGINT)
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 130, out
    run = lookup.load("last", folder / ".laptime")
    assert run.status == "interrupted"
    assert run.cases[0].series[0].samples


def test_a_target_of_bench_is_profiled_too(folder: Path) -> None:
    (folder / "model.py").write_text(
        "import torch\ndef build():\n    return torch.nn.Linear(8, 8), torch.randn(4, 8)\n"
    )
    found = document(laptime("profile", *QUICK, "--json", "--no-save", "model.py:build", cwd=folder))
    assert found["subjects"][0]["target"] == "model.py:build"
    assert found["reconciled"]["parts_ns"]["forward"] > 0
