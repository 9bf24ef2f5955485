"""A suite on a real Slurm of three nodes that this test starts: one is killed in the middle, no case is lost.

Needs Debian's slurmctld, slurmd and munge, and root, who alone may start nodes.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from laptime.kit.errors import UsageError
from laptime.launch.fleet import machines
from laptime.records.run import Run
from laptime.store.files import list_files, read
from laptime.suites.loading import load
from laptime.verbs import suite

NODES = ("n1", "n2", "n3")
PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sinfo")
CONF = """
ClusterName=laptime
SlurmctldHost={host}(127.0.0.1)
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
SlurmctldPort={ports[0]}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
MpiDefault=none
ReturnToService=2
"""
NODE = "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={cpus}\n"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        any(shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") is None for name in PROGRAMS),
        reason="needs Debian's slurmctld, slurmd, slurm-client and munge",
    ),
    pytest.mark.skipif(os.geteuid() != 0, reason="root alone may start Slurm's nodes"),
]


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def eventually(is_so: str, *words: str, seconds: float = 30.0) -> None:
    until = time.monotonic() + seconds
    while is_so not in (said := subprocess.run(words, capture_output=True, text=True).stdout):
        assert time.monotonic() < until, said
        time.sleep(0.3)


@pytest.fixture(scope="module")
def cluster() -> Iterator[dict[str, int]]:
    """Process ids of slurmd, by node."""
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("PATH", f"{os.environ['PATH']}:/usr/sbin")
        folder = Path("/tmp") / f"laptime-slurm-{os.getpid()}"
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        for name in ("state", "munge", *NODES):
            (folder / name).mkdir(parents=True)
        host, ports = socket.gethostname().partition(".")[0], free_ports(4)
        conf = CONF.format(host=host, folder=folder, ports=ports)
        for name, port in zip(NODES, ports[1:], strict=True):
            conf += NODE.format(name=name, host=host, port=port, cpus=os.cpu_count())
        (folder / "slurm.conf").write_text(f"{conf}PartitionName=debug Nodes=ALL Default=YES State=UP\n")
        (folder / "munge/key").write_bytes(os.urandom(1024))
        (folder / "munge/key").chmod(0o400)
        patch.setenv("SLURM_CONF", str(folder / "slurm.conf"))

        def started(*words: str | Path) -> subprocess.Popen[bytes]:
            process = subprocess.Popen(
                [*map(str, words)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            stack.callback(process.wait)
            stack.callback(process.kill)
            return process

        place = folder / "munge"
        files = {
            "socket": "socket",
            "key-file": "key",
            "pid-file": "pid",
            "log-file": "log",
            "seed-file": "seed",
        }
        options = [f"--{option}={place / name}" for option, name in files.items()]
        started("munged", "--force", "--foreground", *options)
        started("slurmctld", "-D")
        nodes = {name: started("slurmd", "-D", "-N", name).pid for name in NODES}
        eventually("3", "sinfo", "--noheader", "--states=idle", "--format=%D")
        yield nodes


@pytest.fixture
def items(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[suite.PlannedBenchmark]:
    monkeypatch.setenv("LAPTIME_HOME", str(tmp_path / "home"))
    table = '[[benchmark]]\nname = "b{0}"\ntarget = "null:sleep={0}ms"\nbackend = "null"\nbudget = "6s"\n'
    (tmp_path / "six.toml").write_text("\n".join(table.format(number) for number in range(1, 7)))
    return suite.prepare(load(str(tmp_path / "six.toml")))


def on_node(name: str) -> list[int]:
    """Programs of a step on a node."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"SLURMD_NODENAME={name}".encode() in (place / "environ").read_bytes():
                found.append(int(place.name))
    return found


def test_a_node_that_is_killed_loses_no_case(
    cluster: dict[str, int], items: list[suite.PlannedBenchmark]
) -> None:
    killed: list[str] = []

    def ended(item: suite.PlannedBenchmark, run: Run) -> None:
        if not killed:  # the others are in the middle of something
            time.sleep(2.0)
            killed.append("n2")
            for pid in [cluster["n2"], *on_node("n2")]:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    found = machines("slurm")
    assert {each.name for each in found} == {*NODES}
    run = suite.measure(items, machines=found, ended=ended)
    assert killed
    assert [case.axes["benchmark"] for case in run.cases if case.status == "ok"] == [
        f"b{n}" for n in range(1, 7)
    ]
    names = [run.name for run in map(read, list_files()) if run.status == "complete"]
    assert sorted(names) == [f"six:b{number}" for number in range(1, 7)], "every case once"
    assert not on_node("n1"), "no program is left"
    assert not on_node("n3")


def test_a_partition_that_is_not_there_is_named(cluster: dict[str, int]) -> None:
    with pytest.raises(UsageError):
        machines("slurm:nowhere")
