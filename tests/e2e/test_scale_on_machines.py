"""`laptime scale --on`, for real: nodes of this machine that train together, and what keeps them from it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from laptime.kit.errors import LaptimeError, Unavailable, UserCodeError
from laptime.launch.fleet import Machine
from laptime.launch.fleet.node import run_on
from laptime.records.run import Run
from laptime.verbs.scale import run as verb
from laptime.verbs.scale.request import ScaleRequest

Here = Callable[..., CompletedProcess[str]]
Begin = Callable[..., subprocess.Popen[str]]
pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.timeout(600)]
SCRIPT = """
import sys
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

BEGIN
dist.init_process_group("gloo")
data = TensorDataset(torch.randn(1 << 20, 16), torch.randint(10, (1 << 20,)))
loader = DataLoader(data, batch_size=16, sampler=DistributedSampler(data))
model = DistributedDataParallel(nn.Linear(16, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for x, y in loader:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
"""
SHORT = ("--jobs", "1", "--steps", "6", "--warmup", "2", "--scaling", "weak")


def write(folder: Path, begin: str = "") -> Path:
    path = folder / "train.py"
    path.write_text(SCRIPT.replace("BEGIN", begin))
    return path


def node(name: str, before: str = "") -> Machine:
    """A node here, after some Python was run in it."""
    run = "import runpy; runpy.run_module('laptime.apps.node', run_name='__main__', alter_sys=True)"
    return Machine(name, (sys.executable, "-c", f"import os\n{before}\n{run}"), "here", is_here=True)


def measured(script: Path, *nodes: Machine) -> Run:
    request = ScaleRequest(program=str(script), ranks=[1, 2], scaling="weak", jobs=1, steps=6, warmup=2)
    return verb.scale(request, machines=nodes)


def test_ranks_of_two_nodes_train_together(
    here: Callable[..., CompletedProcess[str]], tmp_path: Path
) -> None:
    write(tmp_path, "print('x\\n' * 1_000_000)")
    done = here(tmp_path, "scale", "--ranks", "1,2", *SHORT, "--on", "local:2", "--json", "train.py")
    assert done.returncode == 0, done.stderr
    run = json.loads(done.stdout)["run"]
    cases = {case["axes"]["ranks"]: case for case in run["cases"]}
    assert {ranks: case["axes"]["machines"] for ranks, case in cases.items()} == {1: 1, 2: 2}
    assert {ranks: case["details"]["ranks"]["samples"] for ranks, case in cases.items()} == {1: 16, 2: 32}
    assert cases[2]["details"]["ranks"]["exchange"]["collectives"] >= 5
    machines = run["plan"]["machines"]["value"]
    assert set(machines) == {"local-1", "local-2"}
    assert all(each["libraries"]["torch"] for each in machines.values())


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize(
    ("before", "kind", "says"),
    [
        ("os.environ['DATA'] = '/no/such/data'", UserCodeError, "No such file or directory: '/no/such/data'"),
        ("os.environ['DATA'] = '/dev/full'", UserCodeError, "No space left on device"),
        ("os.environ['PYTHONPATH'] = os.environ['BARE']", Unavailable, "No module named 'torch'"),
        ("import tempfile as t; t.tempdir = '/dev/null/x'", LaptimeError, "Not a directory"),
    ],
)
def test_what_one_node_lacks_is_named_in_three_lines(
    before: str,
    kind: type[LaptimeError],
    says: str,
    first: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare/torch.py").write_text("raise ModuleNotFoundError(\"No module named 'torch'\")\n")
    (tmp_path / "data").write_text("")
    monkeypatch.setenv("DATA", str(tmp_path / "data"))
    monkeypatch.setenv("BARE", f"{tmp_path}/bare:{os.environ.get('PYTHONPATH', '')}")
    begin = "import os; file = open(os.environ['DATA'], 'r+'); file.write('x'); file.flush()"
    nodes = (node("b", before), node("a")) if first else (node("a"), node("b", before))
    with pytest.raises(kind) as error:
        measured(write(tmp_path, begin), *nodes)
    lines = error.value
    assert says in lines.why
    assert "b" in (lines.what.split()[0], lines.why.rpartition("(on ")[2].rstrip(")")), "the node is named"
    assert lines.next


@pytest.mark.parametrize("first", [False, True])
def test_a_node_that_stands_still_is_lost_and_one_that_comes_back_is_not(
    first: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = "import laptime.verbs.scale.job as j; j.execute = lambda *_, **__: os.kill(os.getpid(), 19)"
    monkeypatch.setattr(verb, "run_on", partial(run_on, silent=10.0))
    nodes = (node("b", stop), node("a")) if first else (node("a"), node("b", stop))
    with pytest.raises(LaptimeError, match="b was lost") as error:
        measured(write(tmp_path), *nodes)
    assert error.value.why == "it has said nothing for too long"
    wakes = "me = os.getpid(); os.system(f'(kill -STOP {me}; sleep 4; kill -CONT {me}) &')"
    nodes = (node("b", wakes), node("a")) if first else (node("a"), node("b", wakes))
    assert [case.status for case in measured(write(tmp_path), *nodes).cases] == ["ok", "ok"]


# Nothing is left


def started_for(home: Path) -> dict[int, str]:
    """Programs that run for a store, by their ids."""
    found = {}
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if str(home).encode() in (place / "environ").read_bytes():
                found[int(place.name)] = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode()
    return found


def eventually(is_so: Callable[[], object], seconds: float = 180.0) -> None:
    until = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.2)


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a command; it ends with the test."""
    heads: list[subprocess.Popen[str]] = []
    home = tmp_path / "home"

    def started(*words: str, until: str) -> subprocess.Popen[str]:
        line = [sys.executable, "-m", "laptime", *words]
        env = {**os.environ, "LAPTIME_HOME": str(home)}
        head = subprocess.Popen(
            line, cwd=tmp_path, env=env, text=True, stderr=subprocess.PIPE, start_new_session=True
        )
        heads.append(head)
        eventually(lambda: any(until in each for each in started_for(home).values()))
        return head

    yield started
    for head in heads:
        head.kill()
        head.communicate()
    for pid in started_for(home):
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)


FOREVER = ("scale", "--ranks", "1,2", "--steps", "1000000", "--on", "local:2", "train.py")


@pytest.mark.parametrize(
    ("words", "until"),
    [
        (FOREVER, "laptime.instrument -u train.py"),
        (("doctor", "--quick", "--links", "--on", "local:3"), "laptime.apps.node link"),
        (("tune", "--budget", "10m", "--on", "local:2", "train.py"), "laptime.apps.node tune"),
    ],
)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_head_that_is_interrupted_or_killed_leaves_no_process(
    words: tuple[str, ...],
    until: str,
    number: int,
    begin: Begin,
    tmp_path: Path,
) -> None:
    write(tmp_path)
    head = begin(*words, until=until)
    time.sleep(2.0)
    head.send_signal(number)
    assert head.wait(60) == (130 if number == signal.SIGINT else -9)
    eventually(lambda: not started_for(tmp_path / "home"), 60.0)


def test_a_node_that_is_killed_is_named_and_leaves_no_process(begin: Begin, tmp_path: Path) -> None:
    write(tmp_path)
    head = begin(*FOREVER, until="laptime.instrument -u train.py")
    nodes = [pid for pid, line in started_for(tmp_path / "home").items() if "apps.node ranks" in line]
    os.kill(max(nodes), signal.SIGKILL)
    _, said = head.communicate(timeout=120)
    assert head.returncode == 4
    assert " was lost\nwhy:   was ended by SIGKILL\nnext:  " in said
    eventually(lambda: not started_for(tmp_path / "home"), 30.0)
