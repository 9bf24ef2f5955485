"""A suite on a real Slurm of three nodes that this test starts: nodes are killed, heads are ended at any
moment; no case is lost, none is counted twice, and no job or process is left.

Needs Debian's slurmctld, slurmd, slurm-client and munge, and root, who alone may start nodes.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from subprocess import DEVNULL, CompletedProcess, Popen

import pytest

from laptime.launch.fleet.engines import slurm
from laptime.store.files import list_files, read

Here = Callable[..., CompletedProcess[str]]
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
SchedulerParameters=sched_min_interval=200000,batch_sched_delay=0
"""
NODE = "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={cpus}\n"
MUNGE = {"socket": "socket", "key-file": "key", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
BENCHMARK = '[[benchmark]]\nname = "b{0}"\ntarget = "null:sleep={0}ms"\nbackend = "null"\nbudget = "{1}s"\n'

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


def eventually(is_so: Callable[[], object], seconds: float = 60.0) -> None:
    until = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < until, ask("squeue") + ask("sinfo", "--Node")
        time.sleep(0.1)


def eventually_nothing(found: Callable[[], list[str]], seconds: float = 60.0) -> None:
    until = time.monotonic() + seconds
    while rest := found():
        assert time.monotonic() < until, rest
        time.sleep(0.1)


def programs(variable: str) -> Mapping[int, str]:
    """Command lines of the programs with this in their environment, by process id."""
    found = {}
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if variable.encode() in (place / "environ").read_bytes().split(b"\0"):
                found[int(place.name)] = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode()
    found.pop(os.getpid(), None)
    return found


def kill(*pids: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def ask(*words: str) -> str:
    return subprocess.run(words, capture_output=True, text=True, timeout=60).stdout


class Cluster:
    """Daemons in the foreground. folder: all of their files. pids: process ids by node, and of munged."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder, self.stack, self.pids = folder, stack, dict[str, int]()

    def start(self, name: str, *words: str) -> None:
        process = Popen(words, stdout=DEVNULL, stderr=DEVNULL)
        self.stack.callback(process.wait)
        self.stack.callback(process.kill)
        self.pids[name] = process.pid

    def start_node(self, name: str) -> None:
        self.start(name, "slurmd", "-D", "-N", name)

    def is_idle(self) -> bool:
        return ask("sinfo", "--noheader", "--Node", "--format=%T").split() == ["idle"] * 3


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Three idle nodes."""
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
        stack.callback(
            lambda: kill(*programs(f"SLURM_CONF={folder}/slurm.conf"))
        )  # steps outlive their slurmd
        cluster = Cluster(folder, stack)
        options = [f"--{option}={folder}/munge/{name}" for option, name in MUNGE.items()]
        cluster.start("munged", "munged", "--force", "--foreground", *options)
        cluster.start("slurmctld", "slurmctld", "-D")
        for name in NODES:
            cluster.start_node(name)
        eventually(cluster.is_idle)
        yield cluster


@pytest.fixture(scope="module", autouse=True)
def without_munge(cluster: Cluster) -> Popen[str]:
    """A command that finds no munge. Slurm looks for it for 50 s, the time of all other tests."""
    conf = (cluster.folder / "slurm.conf").read_text().replace("/munge/socket", "/no/socket")
    (cluster.folder / "no-munge.conf").write_text(conf)
    env = {**os.environ, "SLURM_CONF": f"{cluster.folder}/no-munge.conf", "LAPTIME_HOME": str(cluster.folder)}
    words = [sys.executable, "-m", "laptime", "doctor", "--on", "slurm"]
    process = Popen(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    cluster.stack.callback(process.kill)
    return process


@pytest.fixture
def idle(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """The cluster, with all nodes idle before and after; the store of the test."""
    monkeypatch.setenv("LAPTIME_HOME", str(tmp_path / "home"))
    yield cluster
    ask("scancel", "--user=root")
    ask("scontrol", "update", f"nodename={','.join(NODES)}", "state=resume")
    eventually(cluster.is_idle)


def fill() -> None:
    """A job on all nodes, as of somebody else."""
    ask("sbatch", "--nodes=3", "--exclusive", "--export=NONE", "--output=/dev/null", "--wrap=sleep 600")
    eventually(lambda: ask("squeue", "--noheader", "--states=running"))


def suite_words(folder: Path, count: int, seconds: int) -> list[str]:
    """`laptime suite run --on slurm` of so many benchmarks of so many seconds."""
    (folder / "many.toml").write_text("\n".join(BENCHMARK.format(n, seconds) for n in range(1, count + 1)))
    return ["suite", "run", str(folder / "many.toml"), "--on", "slurm", "--json"]


def finished(done: CompletedProcess[str]) -> list[str]:
    """The benchmarks of a suite that has measured all of them."""
    assert done.returncode in (0, 3), done.stderr
    names = [run.name for run in map(read, list_files()) if run.status == "complete"]
    cases = json.loads(done.stdout)["cases"]
    assert [case["status"] for case in cases] == ["ok"] * len(cases), done.stderr
    assert sorted(names) == [f"many:{case['axes']['benchmark']}" for case in cases], "every case once"
    return [case["axes"]["benchmark"] for case in cases]


def is_measuring(node: str) -> bool:
    return any("laptime.launch.worker" in words for words in programs(f"SLURMD_NODENAME={node}").values())


@pytest.mark.parametrize("dies", ["node", "slurmd"])
def test_a_node_that_is_killed_loses_no_case(
    idle: Cluster, tmp_path: Path, here: Here, dies: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die() -> None:
        eventually(lambda: is_measuring("n2"))
        kill(idle.pids["n2"])  # its step goes on, and answers late; the next job for it is never started
        if dies == "node":
            kill(*programs("SLURMD_NODENAME=n2"))

    monkeypatch.setattr(slurm, "QUEUED", 8)
    death = threading.Thread(target=die)
    death.start()
    done = here(tmp_path, *suite_words(tmp_path, 4, 2))
    death.join()
    assert finished(done) == [f"b{number}" for number in range(1, 5)]
    ask("scontrol", "update", "nodename=n2", "state=down", "reason=test")  # slurmctld would wait for it
    idle.start_node("n2")
    eventually_nothing(lambda: left(tmp_path))


def left(folder: Path) -> list[str]:
    """Programs that still run for the store of a test, and jobs of laptime."""
    jobs = ask("squeue", "--noheader", "--format=%j %T %N").splitlines()
    found = programs(f"LAPTIME_HOME={folder}/home").values()
    return [*found, *(job for job in jobs if "laptime" in job)]


MOMENTS: dict[str, Callable[[], object]] = {
    "queued": lambda: len(ask("squeue", "--noheader", "--states=pending").splitlines()) == 2,
    "starting": lambda: ask("squeue", "--noheader", "--states=running"),
    "measuring": lambda: is_measuring("n1"),
}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_head_that_is_ended_leaves_no_job_and_no_process(
    idle: Cluster, tmp_path: Path, moment: str, number: int
) -> None:
    if moment == "queued":
        fill()
    words = [sys.executable, "-m", "laptime", *suite_words(tmp_path, 2, 60)]
    head = Popen(words, stdout=DEVNULL, stderr=DEVNULL)
    eventually(MOMENTS[moment])
    head.send_signal(number)
    assert head.wait(60) == (130 if number == signal.SIGINT else -number)
    eventually_nothing(lambda: left(tmp_path), 20)


def test_inside_a_job_of_slurm_its_nodes_are_used(idle: Cluster, tmp_path: Path) -> None:
    words = ["salloc", "--quiet", "--nodes=1", "--nodelist=n3", sys.executable, "-m", "laptime"]
    words += suite_words(tmp_path, 1, 1)
    assert finished(subprocess.run(words, capture_output=True, text=True, timeout=120)) == ["b1"]


# What is refused, or never comes


def complained(done: CompletedProcess[str]) -> list[str]:
    """The three lines of an error: what, why, next."""
    assert done.returncode == 2, done.stderr
    lines = done.stderr.splitlines()[-3:]
    assert [line.split()[0] for line in lines] == ["error:", "why:", "next:"], done.stderr
    return [line.partition(":")[2].strip() for line in lines]


def test_without_a_node_that_takes_jobs_all_are_named(idle: Cluster, tmp_path: Path, here: Here) -> None:
    ask("scontrol", "update", f"nodename={','.join(NODES)}", "state=drain", "reason=test")
    what, why, _ = complained(here(tmp_path, *suite_words(tmp_path, 2, 1)))
    assert what == "no node of Slurm takes jobs"
    assert why == "n1 is drained, n2 is drained, n3 is drained"


def test_a_partition_that_is_not_there_is_named(idle: Cluster, tmp_path: Path, here: Here) -> None:
    _, why, _ = complained(here(tmp_path, *suite_words(tmp_path, 2, 1)[:-2], "slurm:nowhere"))
    assert why == "no partition nowhere"


def test_a_job_that_is_never_started_is_given_up(
    idle: Cluster, tmp_path: Path, here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill()
    monkeypatch.setattr(slurm, "QUEUED", 2)
    done = here(tmp_path, *suite_words(tmp_path, 1, 1))
    assert done.returncode == 4
    (case,) = json.loads(done.stdout)["cases"]
    assert "Requested nodes are busy" in case["failure"]["what"]
    eventually_nothing(lambda: left(tmp_path), 20)


def test_without_munge_it_is_named(without_munge: Popen[str]) -> None:
    out, err = without_munge.communicate(timeout=90)
    assert complained(CompletedProcess((), without_munge.returncode, out, err)) == [
        "Slurm's sinfo failed",
        "slurm_load_partitions: Protocol authentication error",
        "munge -n, then sinfo   on a login node",
    ]
