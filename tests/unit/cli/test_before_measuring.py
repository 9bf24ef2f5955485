"""Every verb that measures refuses what cannot be before it starts a process: exit code 2 and three lines."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from laptime.kit import registry
from laptime.kit.errors import UsageError
from laptime.verbs import suite as verb

Laptime = Callable[..., Any]

VERBS = {
    "bench": ["bench", "model.py:build"],
    "bench --same": ["bench", "--same", "resnet18"],
    "compare": ["compare", "model.py:build", "other.py:build"],
    "suite": ["suite", "run", "suite.toml"],
    "check": ["check", "model.py:build", "--budgets", "laptime.toml"],
    "profile": ["profile", "train.py"],
    "profile TARGET": ["profile", "null:noop"],
    "tune": ["tune", "train.py"],
    "tune MODEL": ["tune", "torchvision:resnet18"],
    "load": ["load", "null:noop", "--rate", "4"],
    "load URL": ["load", "http://127.0.0.1:9/v1", "--rate", "4"],
    "trace": ["trace", "trace.json"],
    "cost": ["cost", "last"],
}

FILES = {
    "-o nowhere/report.html": "nowhere",
    "-o report.doc": ".doc",
    "-o folder": "folder",
    "-o full/report.html": "full",
    "-o train.py/report.html": "train.py",
}
"""With a word of the error."""
BENCH = {
    "--backend pytorch": "did you mean 'torch'",
    "--backend openvino": "pip install 'openvino>=",
    "--backend torch,jax": "pip install 'jax>=",
    "--python torch=nowhere/python": "nowhere/python",
    "--python jax=nowhere/python": "nowhere/python",
    "--dtype int3": "int3",
    "--regime isolate": "isolated",
    "--regime paced": "--rate 20",
    "--instances 0": "--instances 0",
    "--threads 0": "--threads 0",
    "--processes 0": "--processes 0",
    "--budget 0s": "--budget",
    "--precision 0": "--precision",
    "--timeout soon": "--timeout",
    "--name a/b": "a/b",
    "--batch 0": "batch 0",
}
CASES = [
    *((verb, line, word) for verb in VERBS for line, word in FILES.items()),
    *((verb, line, word) for verb in ("bench", "bench --same", "compare") for line, word in BENCH.items()),
    *((verb, "--name last", "'last'") for verb in VERBS if verb not in ("trace", "cost")),
    *((verb, "--option no=1", "no option called 'no'") for verb in ("bench", "compare")),
    ("bench", "--train sgd --backend null", "cannot be trained"),
    ("bench", "--prompt 128", "--llm"),
    ("bench", "--llm --prompt 0", "--prompt 0"),
    ("bench", "keras:ResNet50", "pip install 'tensorflow>="),
    ("bench", "nowhere.py:build", "nowhere.py"),
    ("suite", "--timeout soon", "--timeout"),
    ("check", "--budgets nowhere.toml", "nowhere.toml"),
    ("check", "--budgets unknown.toml", "did you mean latency?"),
    ("check", "--tolerance much", "much"),
    ("check", "--against nowhere", "nowhere"),
    ("profile", "--python nowhere/python", "nowhere/python"),
    ("profile", "--dtype bfloat16", "--dtype is for targets"),
    ("profile", "--batch 8", "--batch is for targets"),
    ("profile TARGET", "--dtype int3", "int3"),
    *(("profile" + more, "--trace full/traces", "full/traces") for more in ("", " TARGET")),
    *(("profile" + more, "--trace train.py", "train.py") for more in ("", " TARGET")),
    *((verb, "--only nothing", "'nothing'") for verb in ("tune", "tune MODEL")),
    *((verb, "--skip nothing", "'nothing'") for verb in ("tune", "tune MODEL")),
    ("tune", "--with nowhere.py", "nowhere.py"),
    ("tune", "--patch nowhere/x.patch", "nowhere"),
    ("tune", "--python nowhere/python", "nowhere/python"),
    ("tune MODEL", "--only openvino", "pip install openvino"),
    ("tune MODEL", "--export full/fast", "full/fast"),
    ("tune MODEL", "--export folder", "exists already"),
    ("tune MODEL", "--export no/folder/fast", "no/folder"),
    ("tune MODEL", "--inputs nowhere.py:samples", "nowhere.py"),
    ("tune MODEL", "--metric model.py:build", "--inputs"),
    *((verb, "--usd-per-hour 0", "--usd-per-hour 0") for verb in ("load", "cost")),
    *((verb, "--usd-per-hour nan", "--usd-per-hour nan") for verb in ("load", "cost")),
    *(("load" + more, "--slo soon", "'soon'") for more in ("", " URL")),
    ("load", "--slo latency=50ms@p98", "p99"),
    ("load", "--slo ttft=50ms@p95", "language models"),
    ("load URL", "--slo tfft=50ms@p95", "--slo ttft"),
    ("load URL", "--find-peak", "--slo latency=50ms@p99"),
    ("load", "--duration 0s", "--duration"),
    ("load", "--shape -1", "--shape -1"),
    ("load", "--arrivals x", "--arrivals poisson"),
    ("load", "--model gpt", "language models"),
    ("cost", "--slo soon", "'soon'"),
    ("cost", "--machine a --machine b", "2 machines for 1 run"),
]  # fmt: skip


@pytest.fixture(autouse=True)
def _no_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A folder with what the lines name, of which nothing may be run; only torch is installed."""

    def start(process: object, words: Any, **options: Any) -> None:
        pytest.fail(f"a process was started: {words}")

    monkeypatch.setattr(subprocess.Popen, "__init__", start)
    monkeypatch.setattr(os, "fork", lambda: pytest.fail("a process was forked"))
    for name in registry.names("backends"):
        here = {name: "1"} if name in ("torch", "null") else {}
        monkeypatch.setattr(registry.load("backends", name), "available", lambda here=here: here)
    for module in ("laptime.verbs.bench.variants", "laptime.tuning.inference.changes"):
        monkeypatch.setattr(f"{module}.find_spec", lambda package: package.startswith("torch") or None)
    for name in ("model.py", "other.py"):
        (tmp_path / name).write_text("def build():\n    raise SystemExit('it was run')\n")
    (tmp_path / "train.py").write_text("raise SystemExit('it was run')\n")
    (tmp_path / "trace.json").write_text("{}")
    (tmp_path / "suite.toml").write_text('[[benchmark]]\nname = "a"\ntarget = "model.py:build"\n')
    (tmp_path / "laptime.toml").write_text("[[budget]]\nmax = '1 ms'\n")
    (tmp_path / "unknown.toml").write_text("[[budget]]\nmetric = 'latncy'\nmax = '1 ms'\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "full").symlink_to("/proc")  # where not even root makes a file


@pytest.mark.parametrize(("verb", "line", "word"), CASES)
def test_it_is_refused_before_a_process_starts(laptime: Laptime, verb: str, line: str, word: str) -> None:
    first, *words = VERBS[verb]
    options = line.split()
    ended = laptime(first, *(options + words if first == "profile" or verb == "tune" else words + options))
    assert (ended.code, ended.out) == (2, ""), ended.err
    assert [each.partition(":")[0] for each in ended.err.splitlines()] == ["error", "why", "next"], ended.err
    assert word in ended.err


@pytest.mark.parametrize(
    ("key", "line"),
    [
        ("max = { latncy = '1 ms' }", "did you mean latency?"),
        ("max = { 'latency/isolated/p98' = '1 ms' }", "p95"),
        ("min = { througput = 3 }", "throughput"),
        ("max = { latency = 'soon' }", "soon"),
        ("regression = 'much'", "much"),
        ("preset = 'fast'", "fast"),
    ],
)
def test_what_a_suite_says_is_read_before_it_runs(
    laptime: Laptime, tmp_path: Path, key: str, line: str
) -> None:
    (tmp_path / "suite.toml").write_text(f'[[benchmark]]\nname = "a"\ntarget = "null:noop"\n{key}\n')
    ended = laptime("suite", "run", "suite.toml")
    assert (ended.code, ended.out) == (2, "")
    assert [each.partition(":")[0] for each in ended.err.splitlines()] == ["error", "why", "next"], ended.err
    assert line in ended.err


def test_what_a_suite_cannot_run_is_said_before_the_rest_is_measured(
    laptime: Laptime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = ['[[benchmark]]\nname = "a"\ntarget = "null:noop"']
    lines += ['[[benchmark]]\nname = "b"\ntarget = "null:noop"\nbackend = "jax"']
    (tmp_path / "suite.toml").write_text("\n".join(lines))

    def measure(*arguments: object, **more: object) -> None:
        raise UsageError("here measuring begins")

    monkeypatch.setattr(verb, "measure", measure)
    said = laptime("suite", "run", "suite.toml").err
    assert re.search("suite:b.*jax.*'jax>=", said)
    assert said.index("cannot run") < said.index("measuring begins")
