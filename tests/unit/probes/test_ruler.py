from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from laptime.kit.clock import SystemClock
from laptime.probes import others
from laptime.probes.ruler import Ruler, open_ruler

if not hasattr(os, "sched_setaffinity"):
    pytest.skip("threads cannot be bound to CPUs here", allow_module_level=True)


@pytest.fixture
def ruler() -> Iterator[Ruler]:
    opened = Ruler()
    yield opened
    opened.close()


def test_every_cpu_is_read_by_a_thread_bound_to_it(ruler: Ruler) -> None:
    bound = {frozenset(os.sched_getaffinity(int(thread))) for thread in ruler.threads}
    assert bound == {frozenset({cpu}) for cpu in os.sched_getaffinity(0)}
    assert 0 < ruler.cost < 0.1


def test_it_takes_no_cpu_time_between_readings(ruler: Ruler) -> None:
    used = time.process_time()
    time.sleep(0.3)
    assert time.process_time() - used < 0.1


def test_slower_work_is_a_longer_reading(ruler: Ruler, monkeypatch: pytest.MonkeyPatch) -> None:
    def best() -> float:
        return min(seconds for _ in range(30) if (seconds := ruler.read()) is not None)

    usual = best()
    monkeypatch.setattr("laptime.probes.ruler.ROUNDS", 300)
    assert best() == pytest.approx(3 * usual, rel=0.5)


def test_a_reading_beside_the_programs_own_threads_says_nothing(ruler: Ruler) -> None:
    """They are the program's own, even if they slow the other hyperthread of their core."""
    readings = [ruler.read() for _ in range(50)]
    assert sum(seconds is not None for seconds in readings) > 25
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            hashlib.pbkdf2_hmac("sha256", b"own", b"threads", 100_000)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        readings = [ruler.read() for _ in range(20)]
    finally:
        over.set()
        thread.join()
    assert readings.count(None) >= 10


def test_a_child_that_works_is_seen() -> None:
    program = "print(flush=True)\nwhile True: pass"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert others.children_run()
        child.kill()
    assert not others.children_run()


def test_a_slow_reading_beside_a_working_child_says_nothing(
    ruler: Ruler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("laptime.probes.ruler.ROUNDS", 500)
    monkeypatch.setattr(others, "children_run", lambda: True)
    assert [ruler.read() for _ in range(5)] == [None] * 5


def test_closing_ends_its_threads() -> None:
    before = threading.active_count()
    Ruler().close()
    until = time.perf_counter() + 5
    while threading.active_count() > before and time.perf_counter() < until:
        time.sleep(0.01)
    assert threading.active_count() == before


def test_there_is_none_where_the_clock_can_be_read_or_is_not_ours(tmp_path: Path) -> None:
    guest = tmp_path / "guest"
    (guest / "proc").mkdir(parents=True)
    (guest / "proc/cpuinfo").write_text("processor : 0\nflags : fpu hypervisor\n")
    opened = open_ruler("cpu", SystemClock, str(guest))
    assert opened is not None
    opened.close()
    assert open_ruler("cuda:0", SystemClock, str(guest)) is None
    assert open_ruler("cpu", type("Scripted", (SystemClock,), {}), str(guest)) is None
    cpufreq = guest / "sys/devices/system/cpu/cpu0/cpufreq"
    cpufreq.mkdir(parents=True)
    (cpufreq / "scaling_cur_freq").write_text("2000000\n")
    assert open_ruler("cpu", SystemClock, str(guest)) is None
    metal = tmp_path / "metal/proc"
    metal.mkdir(parents=True)
    (metal / "cpuinfo").write_text("processor : 0\nflags : fpu\n")
    assert open_ruler("cpu", SystemClock, str(metal.parent)) is None
