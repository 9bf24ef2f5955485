"""Evidence of disturbance, from real and fake /proc trees."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from fixtures.fake_root import FakeRoot
from laptime.probes import scheduler
from laptime.probes.scheduler import Evidence

on_linux = pytest.mark.skipif(not Path("/proc/self/schedstat").is_file(), reason="needs /proc")


@pytest.fixture
def tree(tmp_path: Path) -> FakeRoot:
    tree = FakeRoot(tmp_path)
    tree.put("proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu avx2 hypervisor\n")
    tree.put("proc/stat", "cpu  10 0 5 900 1 0 2 250 0 0\ncpu0 10 0 5 900 1 0 2 250 0 0\n")
    tree.put("proc/self/schedstat", "5000 700 9")
    tree.put("proc/self/task/11/schedstat", "5000 2000000000 9")
    tree.put("proc/self/task/12/schedstat", "5000 500000000 9")
    return tree


def test_waiting_time_is_the_sum_over_threads(tree: FakeRoot) -> None:
    with Evidence(tree.root) as evidence:
        assert evidence.threads == 2
        assert evidence.read().waited_s == pytest.approx(2.5)


def test_waiting_time_follows_the_file(tree: FakeRoot) -> None:
    with Evidence(tree.root) as evidence:
        before = evidence.read()
        tree.put("proc/self/task/12/schedstat", "5000 600000000 9")
        assert evidence.read().waited_s - before.waited_s == pytest.approx(0.1)


def test_a_new_thread_is_seen_after_refresh_only(tree: FakeRoot) -> None:
    with Evidence(tree.root) as evidence:
        tree.put("proc/self/task/13/schedstat", "1 1000000000 1")
        assert evidence.read().waited_s == pytest.approx(2.5)
        evidence.refresh_threads()
        assert evidence.read().waited_s == pytest.approx(3.5)


def test_what_an_ended_thread_had_waited_stays_counted(tree: FakeRoot) -> None:
    with Evidence(tree.root) as evidence:
        evidence.read()
        (Path(tree.root) / "proc/self/task/12/schedstat").unlink()
        (Path(tree.root) / "proc/self/task/12").rmdir()
        evidence.refresh_threads()
        assert evidence.threads == 1
        assert evidence.read().waited_s == pytest.approx(2.5)


def test_a_kernel_without_scheduler_statistics_gives_none_not_zero(tree: FakeRoot) -> None:
    tree.put("proc/self/schedstat", "0 0 0")
    with Evidence(tree.root) as evidence:
        assert evidence.read().waited_s is None


def test_steal_is_read_in_seconds(tree: FakeRoot) -> None:
    with Evidence(tree.root) as evidence:
        assert evidence.read().stolen_s == pytest.approx(250 / os.sysconf("SC_CLK_TCK"))


@pytest.mark.parametrize(
    ("change", "missing"),
    [
        ({"wall": 0.010, "cpu": 0.004}, 0.006),
        ({"wall": 0.010, "cpu": 0.004, "waited": 0.006}, 0.0),  # another program had its CPU
        ({"wall": 0.010, "cpu": 0.004, "sleeps": 1}, 0.0),  # it gave its CPU away by itself
        ({"wall": 0.010, "cpu": 0.00995}, 0.0),  # clocks are read one after another
        ({"wall": 0.010, "cpu": 0.004, "thread": 1}, 0.0),
    ],
)
def test_cpu_time_is_missing_only_while_the_calling_thread_never_sleeps(
    tree: FakeRoot, monkeypatch: pytest.MonkeyPatch, change: dict[str, float], missing: float
) -> None:
    tree.put(f"proc/self/task/{threading.get_native_id()}/schedstat", "5000 700 9")
    monkeypatch.setattr(scheduler, "_TELLS_THREADS", True)
    start = {"thread": 7, "sleeps": 3, "waited": 0.5, "cpu": 7.0, "wall": 100.0}
    rows = [start, {name: value + change.get(name, 0) for name, value in start.items()}]
    clocks = iter([scheduler._CallingThread(**row) for row in rows])  # type: ignore[arg-type]
    with Evidence(tree.root) as evidence:
        monkeypatch.setattr(scheduler._CallingThread, "read", lambda waited: next(clocks))
        before = evidence.read().missing_s
        assert before is not None
        after = evidence.read().missing_s
        assert after is not None
        assert after - before == pytest.approx(missing)


@on_linux
def test_a_thread_that_sleeps_lacks_no_cpu_time() -> None:
    with Evidence() as evidence:
        before = evidence.read().missing_s
        for _ in range(5):
            time.sleep(0.01)
            assert evidence.read().missing_s == before


@on_linux
def test_a_program_that_turns_back_the_clocks_misses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with Evidence() as evidence:
        before = evidence.read().missing_s
        monkeypatch.setattr(time, "perf_counter", lambda: 1e9)
        monkeypatch.setattr(time, "thread_time", lambda: 0.0)
        after = evidence.read().missing_s
    assert before is not None
    assert after is not None
    assert after - before < 0.05


def test_bare_metal_cannot_be_stolen_from(tree: FakeRoot) -> None:
    tree.put("proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu avx2\n")
    with Evidence(tree.root) as evidence:
        assert evidence.read().stolen_s == 0.0


def test_a_system_without_proc_tells_only_switches(tmp_path: Path) -> None:
    with Evidence(str(tmp_path)) as evidence:
        told = evidence.read()
    assert (told.waited_s, told.stolen_s, told.throttled_s, told.missing_s) == (None,) * 4
    assert told.switches is not None
    assert told.switches >= 0


def test_throttling_of_a_version_2_group_is_in_seconds(tree: FakeRoot) -> None:
    tree.cgroup2("/app", {"cpu.max": "200000 100000", "cpu.stat": _V2_STAT})
    with Evidence(tree.root) as evidence:
        assert evidence.read().throttled_s == pytest.approx(1.5)


def test_throttling_of_a_version_1_group_is_in_seconds(tree: FakeRoot) -> None:
    files = {
        "cpu.cfs_quota_us": "200000",
        "cpu.cfs_period_us": "100000",
        "cpu.stat": "nr_periods 10\nnr_throttled 3\nthrottled_time 2500000000\n",
    }
    tree.cgroup1("cpu", "/docker/abc", files)
    with Evidence(tree.root) as evidence:
        assert evidence.read().throttled_s == pytest.approx(2.5)


def test_throttling_of_the_group_above_counts(tree: FakeRoot) -> None:
    tree.cgroup2("/pod/app", {"cpu.max": "max 100000", "cpu.stat": "usage_usec 1\n"})
    tree.put("sys/fs/cgroup/pod/cpu.max", "400000 100000")
    tree.put("sys/fs/cgroup/pod/cpu.stat", _V2_STAT)
    with Evidence(tree.root) as evidence:
        assert evidence.read().throttled_s == pytest.approx(1.5)


def test_without_a_quota_nothing_is_throttled(tree: FakeRoot) -> None:
    tree.cgroup2("/app", {"cpu.max": "max 100000", "cpu.stat": "usage_usec 1\n"})
    with Evidence(tree.root) as evidence:
        assert evidence.read().throttled_s == 0.0


@on_linux
def test_a_real_thread_that_ends_leaves_the_total_monotonic() -> None:
    with Evidence() as evidence:
        stop = threading.Event()
        thread = threading.Thread(target=stop.wait)
        thread.start()
        evidence.refresh_threads()
        before = evidence.read()
        stop.set()
        thread.join()
        after = evidence.read()
        assert after.waited_s is not None
        assert before.waited_s is not None
        assert after.waited_s >= before.waited_s


@on_linux
def test_waiting_behind_another_thread_on_one_cpu_is_seen() -> None:
    allowed = os.sched_getaffinity(0)
    child = os.fork()
    if child == 0:  # a competitor on one CPU
        os.sched_setaffinity(0, {min(allowed)})
        ends = time.monotonic() + 0.25
        while time.monotonic() < ends:
            pass
        os._exit(0)
    try:
        os.sched_setaffinity(0, {min(allowed)})
        with Evidence() as evidence:
            before = evidence.read()
            ends = time.monotonic() + 0.2
            while time.monotonic() < ends:
                pass
            after = evidence.read()
    finally:
        os.sched_setaffinity(0, allowed)
        os.waitpid(child, 0)
    if before.waited_s is None or after.waited_s is None:
        pytest.skip("this kernel keeps no scheduler statistics")
    assert after.waited_s - before.waited_s > 0.02


@on_linux
def test_one_reading_costs_microseconds() -> None:
    with Evidence() as evidence:
        assert 0 < evidence.cost < 1e-3


_V2_STAT = (
    "usage_usec 900\nuser_usec 800\nsystem_usec 100\nnr_periods 9\nnr_throttled 4\nthrottled_usec 1500000\n"
)
