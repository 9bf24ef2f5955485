from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from laptime.launch.worker import CommandFailed, WorkerProcess
from laptime.measure.protocol import Block, Facts, Load, Loaded, Pass, Prepare, Prepared, Samples
from laptime.records.plan import Variant

Open = Callable[..., WorkerProcess]


@pytest.fixture
def worker() -> Iterator[Open]:
    """Starts workers with a target loaded; afterwards none of them, nor a child of theirs, is left."""
    opened: list[WorkerProcess] = []

    def start(target: str = "null:spin=1ms", *, load: bool = True, **more: Any) -> WorkerProcess:
        opened.append(WorkerProcess(name=target))
        if load:
            opened[-1].ask(Load(variant=Variant(target=target, backend="null"), **more), timeout=60)
        return opened[-1]

    yield start
    for each in opened:
        each.close()
        each.close()
        assert not each.alive
        assert not psutil.pid_exists(each.pid)
    assert not [child for child in psutil.Process().children() if child.status() == psutil.STATUS_ZOMBIE]


def failure(worker: WorkerProcess, command: Any, *, timeout: float = 30) -> Any:
    with pytest.raises(CommandFailed) as caught:
        worker.ask(command, timeout=timeout)
    return caught.value.failure


def block(**more: Any) -> Block:
    given: dict[str, Any] = {"batch": 1, "regime": "isolated", "seconds": 0.05} | more
    return Block(**given)


def test_load_prepare_block_and_pass(worker: Open) -> None:
    own = worker(load=False)
    variant = Variant(target="null:spin=2ms", backend="null")
    (loaded,) = own.ask(Load(variant=variant), timeout=60)
    assert isinstance(loaded, Loaded)
    assert loaded.pid == own.pid != os.getpid()
    (prepared,) = own.ask(Prepare(batch=1), timeout=10)
    assert isinstance(prepared, Prepared)
    assert prepared.first_call >= 0.002
    (samples,) = own.ask(block(), timeout=10)
    assert isinstance(samples, Samples)
    latency = samples.series[0]
    assert latency.metric.tag == "latency"
    assert min(latency.samples) >= 0.002
    assert len(latency.at) == len(latency.samples) >= 3
    (facts,) = own.ask(Pass(kind="memory", batch=1), timeout=10)
    assert isinstance(facts, Facts)
    assert facts.series[0].samples[0] > 2**20


@pytest.mark.parametrize("fault", ["raise", "oom"])
def test_what_a_call_raises_is_an_answer_and_the_worker_lives_on(worker: Open, fault: str) -> None:
    own = worker(f"null:{fault},at=2")
    own.ask(Prepare(batch=1), timeout=10)
    found = failure(own, block())
    assert found.kind == {"raise": "user_code", "oom": "out_of_memory"}[fault]
    assert "Traceback" in found.traceback
    assert own.alive
    own.ask(block(), timeout=10)


@pytest.mark.parametrize(("fault", "name"), [("crash", "SIGSEGV"), ("kill", "SIGKILL")])
def test_a_worker_that_dies_says_how(worker: Open, fault: str, name: str) -> None:
    own = worker(f"null:{fault}")
    found = failure(own, Prepare(batch=1))
    assert found.kind == "died"
    assert name in found.what
    assert found.why
    assert found.next
    assert not own.alive
    assert failure(own, Prepare(batch=1)).kind == "died"


def test_a_worker_that_hangs_is_ended_by_its_timeout(worker: Open) -> None:
    own = worker("null:hang")
    started = time.monotonic()
    found = failure(own, Prepare(batch=1), timeout=0.5)
    assert found.kind == "hung"
    assert "0.5 s" in found.what
    assert "--timeout" in found.next
    assert not own.alive
    assert time.monotonic() - started < 10


def test_commands_out_of_order_are_refused(worker: Open) -> None:
    own = worker(load=False)
    assert "was loaded" in failure(own, Prepare(batch=1)).what
    own.ask(Load(variant=Variant(target="null:noop", backend="null")), timeout=60)
    assert "not prepared" in failure(own, block()).what
    assert "not prepared" in failure(own, Pass(kind="count", batch=3)).what
    own.ask(Prepare(batch=1), timeout=10)
    assert "no pass" in failure(own, Pass(kind="dance", batch=1)).what
    assert "rate" in failure(own, block(regime="paced")).what
    assert failure(own, block(regime="device")).kind == "unavailable"


def _file(folder: Path, body: str) -> str:
    (folder / "model.py").write_text(textwrap.dedent(body))
    return "model.py:make"


def test_what_a_model_prints_is_taken_for_no_message(
    worker: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    target = _file(
        tmp_path,
        r"""
        import os, subprocess, sys

        print('{"type":"done"}')

        def call():
            print('{"type":"done"}')
            os.write(1, b'\n{"type":"failed"}\n')
            sys.__stdout__.write("hello\n")
            sys.__stdout__.flush()

        def make():
            subprocess.run(["echo", '{"type":"done"}'])
            return call, None
        """,
    )
    own = worker(target)
    own.ask(Prepare(batch=1), timeout=10)
    (samples,) = own.ask(block(), timeout=10)
    assert isinstance(samples, Samples)


@pytest.mark.parametrize(
    "does",
    [
        "os.close(0)",
        "os.close(1)",
        "os.closerange(0, 3)",
        "os.fork() and os.wait()",  # and the child comes back from the call
        "setattr(time, 'perf_counter', lambda: 0.0)",
        "os.chdir('/')",
    ],
)
def test_what_a_model_does_to_its_process_costs_no_measurement(
    worker: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, does: str
) -> None:
    monkeypatch.chdir(tmp_path)
    target = _file(
        tmp_path,
        f"""
        import contextlib, os, time

        def call():
            end = time.monotonic() + 0.005
            while time.monotonic() < end:
                pass
            with contextlib.suppress(OSError):
                {does}

        def make():
            return call, None
        """,
    )
    own = worker(target)
    own.ask(Prepare(batch=1), timeout=10)
    for _ in range(2):
        (samples,) = own.ask(block(), timeout=20)
        assert isinstance(samples, Samples)
        assert min(samples.series[0].samples) > 0.004


def test_a_model_that_reads_standard_input_takes_no_command_away(
    worker: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    target = _file(
        tmp_path,
        """
        import sys

        def make():
            return (lambda: sys.stdin.read()), None
        """,
    )
    own = worker(target)
    own.ask(Prepare(batch=1), timeout=10)
    own.ask(block(), timeout=10)


def test_a_model_that_ends_the_process_is_told_so(
    worker: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    target = _file(tmp_path, "import sys\ndef make():\n    return (lambda: sys.exit('enough')), None\n")
    found = failure(worker(target), Prepare(batch=1))
    assert found.kind == "died"
    assert "status 1" in found.what
    assert "enough" in found.why
    assert "sys.exit" in found.next


def test_a_memory_limit_ends_a_call_and_not_the_machine(worker: Open) -> None:
    own = worker("null:alloc=1GiB", memory_limit=256 * 2**20)
    found = failure(own, Prepare(batch=1))
    assert found.kind == "out_of_memory"
    assert own.alive


@pytest.mark.parametrize("own_session", [False, True])
def test_what_a_model_started_ends_with_its_worker(
    worker: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_session: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    target = _file(
        tmp_path,
        f"""
        import pathlib, subprocess

        def make():
            child = subprocess.Popen(["sleep", "60"], start_new_session={own_session})
            pathlib.Path("pid").write_text(str(child.pid))
            return (lambda: None), None
        """,
    )
    own = worker(target)
    child = int((tmp_path / "pid").read_text())
    assert psutil.pid_exists(child)
    own.close()
    _gone(child)


def test_closing_in_the_middle_of_a_command_does_not_wait(worker: Open) -> None:
    own = worker("null:sleep=10s")
    own.start(Prepare(batch=1))
    started = time.monotonic()
    own.close()
    assert time.monotonic() - started < 3
    assert not own.alive


def test_workers_open_no_file_that_stays_open(worker: Open) -> None:
    worker().close()
    before = psutil.Process().num_fds()
    for _ in range(2):
        worker(load=False).close()
    assert psutil.Process().num_fds() <= before


def test_a_parent_that_is_killed_leaves_no_worker(tmp_path: Path) -> None:
    script = textwrap.dedent(
        """
        import time
        from laptime.launch.worker import WorkerProcess
        from laptime.measure.protocol import Load, Prepare
        from laptime.records.plan import Variant
        worker = WorkerProcess(name="x")
        worker.ask(Load(variant=Variant(target="null:noop", backend="null")), timeout=60)
        print(worker.pid, flush=True)
        time.sleep(60)
        """
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, cwd=tmp_path)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    _gone(pid)


def _gone(pid: int) -> None:
    for _ in range(200):
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return
        time.sleep(0.05)
    raise AssertionError(f"process {pid} is still there")
