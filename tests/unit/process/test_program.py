"""A program is ended with all that it has started, politely where it may be, once."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from laptime.process.program import (
    FileWatch,
    Guard,
    Process,
    deferred_signals,
    ending,
    last_line,
    signal_name,
    tail,
    unwound_by_sigterm,
)

SLEEP = "import time; time.sleep(600)"
FAMILY = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", {SLEEP!r}])
print(child.pid, flush=True)
"""


def is_alive(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def gone(pid: int) -> bool:
    end = time.monotonic() + 5
    while is_alive(pid) and time.monotonic() < end:
        time.sleep(0.02)
    return not is_alive(pid)


def test_what_a_program_leaves_behind_ends_with_it() -> None:
    with Process([sys.executable, "-c", FAMILY], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        assert process.ends_within(30)
        assert is_alive(child)
        assert process.end() == 0
        assert gone(child)
        assert process.end() == 0


def test_a_program_gets_its_grace() -> None:
    polite = (
        "import signal, sys, time; signal.signal(2, lambda *_: sys.exit(7)); print(1, flush=True); " + SLEEP
    )
    with Process([sys.executable, "-c", polite], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert process.end(grace=30, first=signal.SIGINT) == 7


def test_a_deaf_program_is_killed_after_its_grace() -> None:
    deaf = "import signal; signal.signal(15, signal.SIG_IGN); print(1, flush=True); " + SLEEP
    with Process([sys.executable, "-c", deaf], stdout=subprocess.PIPE, keeps_terminal=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert process.end(grace=0.1) == -signal.SIGKILL


def test_waiting_ends_with_the_program_or_its_time() -> None:
    with Process([sys.executable, "-c", SLEEP]) as process:
        assert not process.ends_within(0.05)
        assert not process.ends_within(-1)
        assert 0.05 < process.seconds < 30
        process.send(signal.SIGTERM)
        assert process.ends_within(30)
        assert process.end() == -signal.SIGTERM


def test_waiting_works_on_a_kernel_without_descriptors_of_processes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def absent(pid: int) -> int:
        raise OSError(errno.ENOSYS, "not implemented")

    monkeypatch.setattr(os, "pidfd_open", absent)
    test_waiting_ends_with_the_program_or_its_time()


def test_only_a_program_that_keeps_the_terminal_stays_in_our_session() -> None:
    for keeps in (True, False):
        with Process([sys.executable, "-c", SLEEP], keeps_terminal=keeps) as process:
            assert os.getpgid(process.pid) == process.pid != os.getpgid(0)
            assert (os.getsid(process.pid) == os.getsid(0)) is keeps
            process.end()


def test_how_a_program_ended_in_words(tmp_path: Path) -> None:
    assert "status 3" in ending(3)
    assert "SIGKILL" in ending(-9)
    assert "signal 40" in ending(-40)
    assert signal_name(0) == ""
    assert last_line("one\n two \n\n  \n") == "two"
    assert last_line("\n") == ""
    path = tmp_path / "output"
    path.write_bytes(b"\xff" + b"x" * 10)
    with path.open("rb") as file:
        assert tail(file, 4) == "xxxx"
        assert tail(file) == "\ufffd" + "x" * 10
    assert tail(file) == ""


def test_sigterm_unwinds_as_ctrl_c_does() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), unwound_by_sigterm():
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_waits_until_somebody_holds_the_program(number: signal.Signals) -> None:
    steps = []

    def start() -> None:
        with unwound_by_sigterm(), deferred_signals() as release:
            signal.raise_signal(number)
            steps.append("started")
            try:
                release()
                steps.append("not reached")
            finally:
                steps.append("ended")

    with pytest.raises(KeyboardInterrupt):
        start()
    assert steps == ["started", "ended"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_without_a_signal_nothing_is_deferred() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with deferred_signals() as release:
        release()
        assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_whoever_waits_for_a_file_is_woken_when_it_grows(tmp_path: Path) -> None:
    file = tmp_path / "messages"
    file.touch()
    grows = f"import time; time.sleep(0.5); open({str(file)!r}, 'a').write('x'); " + SLEEP
    watch = FileWatch(file)
    assert watch.descriptor is not None or sys.platform != "linux"
    with Process([sys.executable, "-c", grows]) as process:
        began = time.monotonic()
        assert not process.ends_within(30, watch)
        assert time.monotonic() - began < 20
        assert file.read_text() == "x"
        watch.discard()
        assert not process.ends_within(0.05, watch)
        (tmp_path / "another").touch()
        began = time.monotonic()
        assert not process.ends_within(30, watch)
        assert time.monotonic() - began < 10
        watch.close()
        watch.close()
        process.end()


def test_without_word_of_files_waiting_is_for_the_program_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ctypes

    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    watch = FileWatch(tmp_path / "messages")
    assert watch.descriptor is None
    watch.discard()
    with Process([sys.executable, "-c", "pass"]) as process:
        assert process.ends_within(30, watch)
        process.end()


def test_a_file_that_is_not_there_cannot_be_watched(tmp_path: Path) -> None:
    before = psutil.Process().num_fds()
    assert FileWatch(tmp_path / "missing").descriptor is None
    assert psutil.Process().num_fds() == before


def are(status: str, *pids: int) -> bool:
    """Whether all of them come to this state within some seconds."""
    end = time.monotonic() + 10
    while {psutil.Process(pid).status() for pid in pids} != {status}:
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


FLED = FAMILY.replace(")'])", ")'], start_new_session=True)").replace(')"])', ')"], start_new_session=True)')


@pytest.mark.parametrize("family", [FAMILY, FLED], ids=["in the group", "has left it"])
def test_a_program_stands_still_with_all_that_it_has_started(family: str) -> None:
    process = Process([sys.executable, "-c", f"{family}\nchild.wait()"], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        left = process.pause()
        assert are(psutil.STATUS_STOPPED, process.pid, child)
        assert (child in left) == (family is FLED)
        process.resume()
        assert are(psutil.STATUS_SLEEPING, process.pid, child)
        process.pause()
        began = time.monotonic()
        process.end(grace=5.0)
        assert time.monotonic() - began < 4.0, "it hears that it is to end"
        assert gone(child)
    finally:
        process.end()


SESSION = f"""
import sys, time
from laptime.process.program import Guard, Process
process, guard = Process([sys.executable, "-c", {SLEEP!r}]), Guard()
guard.add(-process.pid)
process.pause()
print(process.pid, guard._process.pid, flush=True)
time.sleep(600)
"""


def test_what_stands_still_ends_when_its_session_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", SESSION], stdout=subprocess.PIPE) as session:
        assert session.stdout is not None
        stopped, guard = map(int, session.stdout.readline().split())
        assert are(psutil.STATUS_STOPPED, stopped)
        session.kill()
        assert gone(stopped)
        assert gone(guard)


def test_a_guard_that_is_closed_kills_nobody() -> None:
    guard, process = Guard(), Process([sys.executable, "-c", SLEEP])
    try:
        guard.add(-process.pid)
        guard.close()
        guard.close()
        assert not process.ends_within(0.2)
    finally:
        process.end()
