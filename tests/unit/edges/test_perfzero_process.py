"""A benchmark's process from outside: what it uses, and that nothing of it is left."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from laptime.edges.perfzero import process as watching
from laptime.process.program import Process

BUSY = "import time\nend = time.monotonic() + 30\nwhile time.monotonic() < end: pass"


@pytest.fixture
def busy() -> Iterator[subprocess.Popen[bytes]]:
    started = subprocess.Popen([sys.executable, "-c", BUSY])
    yield started
    started.kill()
    started.wait()


def test_a_look_that_was_interrupted_makes_no_cpu_time(
    busy: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time between reading the CPU time and the end of a look belongs to the next window."""
    watch = watching._Watch(busy.pid)
    time.sleep(0.3)
    wait = watch._wait

    def slowly(pid: int) -> None:
        wait(pid)
        time.sleep(0.4)

    monkeypatch.setattr(watch, "_wait", slowly)
    for _ in range(3):
        watch.look()
        time.sleep(0.1)
    assert len(watch.looks) == 3
    # One program without threads: it cannot use more than one CPU, but for ticks of 10 ms.
    assert max(look.cpu for look in watch.looks) <= 105.0


def test_waiting_for_a_cpu_is_seen_from_outside() -> None:
    """Two programs that want one CPU: each waits for about half of the time."""
    cpu = sorted(os.sched_getaffinity(0))[0]
    twins = [
        subprocess.Popen([sys.executable, "-c", f"import os\nos.sched_setaffinity(0, [{cpu}])\n{BUSY}"])
        for _ in range(2)
    ]
    try:
        time.sleep(0.3)
        watch = watching._Watch(twins[0].pid)
        watch.look()
        time.sleep(1.0)
        watch.look()
        first, second = watch.looks
        if first.waited == 0.0 and not Path("/proc/self/schedstat").exists():
            pytest.skip("this kernel does not tell")
        assert second.waited - first.waited > 0.2
        assert second.used > first.used
    finally:
        for twin in twins:
            twin.kill()
            twin.wait()


def test_what_left_the_group_ends_with_a_marked_program(tmp_path: Path) -> None:
    """A grandchild in a session of its own, whose parent has ended: nothing but its mark leads to it."""
    script = (
        "import subprocess, sys\n"
        "daemon = subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(daemon.pid))\n"
    )
    program = Process([sys.executable, "-c", script], marked=True)
    assert program.ends_within(20)
    pid = int((tmp_path / "pid").read_text())
    assert psutil.pid_exists(pid)
    assert program.end() == 0
    for _ in range(50):
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            break
        time.sleep(0.05)
    else:
        psutil.Process(pid).kill()
        pytest.fail("it still runs")
