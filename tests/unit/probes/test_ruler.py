from __future__ import annotations

import os
import subprocess
import sys
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


class Work:
    """Known work that takes what a test says, beside so many CPUs that the program uses."""

    seconds = 1.0
    own = 0.0

    def __call__(self) -> float:
        return self.seconds

    def cpu_time(self) -> float:
        return (3 + self.own) * time.perf_counter()  # more than the ruler's own threads use


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    scripted = Work()
    monkeypatch.setattr("laptime.probes.ruler._work", scripted)
    monkeypatch.setattr("laptime.probes.ruler._cpu_time", scripted.cpu_time)
    monkeypatch.setattr("laptime.probes.ruler.OWN_CPUS", 5.0)
    return scripted


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
        return min(ruler.read() for _ in range(30))

    usual = best()
    monkeypatch.setattr("laptime.probes.ruler.ROUNDS", 300)
    assert best() == pytest.approx(3 * usual, rel=0.5)


@pytest.mark.parametrize("slowed", [True, False], ids=["slow beside them", "as fast beside them"])
def test_own_threads_may_explain_a_slow_reading(work: Work, ruler: Ruler, slowed: bool) -> None:
    """Own threads on the other hyperthread of a core slow the ruler by themselves; pools that spin do not."""
    work.own, work.seconds = 10.0, 1.5 if slowed else 1.0
    for _ in range(50):
        ruler.read()
    work.seconds = 1.5
    assert ruler.read() == (1.0 if slowed else 1.5)


def test_a_child_that_works_is_seen() -> None:
    program = "print(flush=True)\nwhile True: pass"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert others.children_run()
        child.kill()
    assert not others.children_run()


def test_a_slow_reading_beside_a_working_child_is_the_programs_own(
    work: Work, ruler: Ruler, monkeypatch: pytest.MonkeyPatch
) -> None:
    work.seconds = 1.5
    assert ruler.read() == 1.5
    monkeypatch.setattr(others, "children_run", lambda: True)
    assert ruler.read() == 1.0


def test_a_forked_child_gets_an_answer_though_it_has_no_threads(ruler: Ruler) -> None:
    child = os.fork()
    if child == 0:
        os._exit(0 if ruler.read() > 0 else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_closing_ends_its_threads() -> None:
    ruler = Ruler()
    ruler.close()
    until = time.perf_counter() + 5
    while left := [thread for thread in ruler.threads if Path(f"/proc/self/task/{thread}").exists()]:
        assert time.perf_counter() < until, left
        time.sleep(0.01)


def test_there_is_none_where_the_clock_can_be_read_or_is_not_ours(tmp_path: Path) -> None:
    guest = tmp_path / "guest"
    (guest / "proc").mkdir(parents=True)
    (guest / "proc/cpuinfo").write_text("processor : 0\nflags : fpu hypervisor\n")
    opened = open_ruler("cpu", SystemClock, str(guest))
    assert opened is not None
    opened.close()
    assert open_ruler("cuda:0", SystemClock, str(guest)) is None

    class Scripted(SystemClock): ...

    assert open_ruler("cpu", Scripted, str(guest)) is None
    cpufreq = guest / "sys/devices/system/cpu/cpu0/cpufreq"
    cpufreq.mkdir(parents=True)
    (cpufreq / "scaling_cur_freq").write_text("2000000\n")
    assert open_ruler("cpu", SystemClock, str(guest)) is None
    metal = tmp_path / "metal/proc"
    metal.mkdir(parents=True)
    (metal / "cpuinfo").write_text("processor : 0\nflags : fpu\n")
    assert open_ruler("cpu", SystemClock, str(metal.parent)) is None
