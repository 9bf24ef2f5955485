"""Host memory: the exact peak of a call, what is available, and the limit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fixtures.fake_root import FakeRoot
from laptime.probes.host_memory import available_bytes, peak_of, resident

MIB = 2**20
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")


def _touch(size: int) -> int:
    return len(bytes(bytearray(size)))  # two copies live at once


@on_linux
def test_a_short_peak_is_not_missed() -> None:
    peak = peak_of(lambda: _touch(64 * MIB))
    if not peak.exact:
        pytest.skip("clear_refs cannot be written here")
    assert 126 * MIB < peak.increase < 140 * MIB
    assert peak.peak == peak.baseline + peak.increase


@on_linux
def test_memory_freed_before_does_not_hide_the_peak() -> None:
    first = peak_of(lambda: _touch(48 * MIB))
    second = peak_of(lambda: _touch(48 * MIB))
    if not second.exact:
        pytest.skip("clear_refs cannot be written here")
    assert second.increase > 0.95 * first.increase


@on_linux
def test_a_call_that_allocates_nothing_adds_nothing() -> None:
    peak = peak_of(lambda: None)
    if not peak.exact:
        pytest.skip("clear_refs cannot be written here")
    assert peak.increase < MIB


def test_without_clear_refs_the_note_says_that_it_is_an_upper_bound(tmp_path: Path) -> None:
    peak = peak_of(lambda: None, str(tmp_path))
    assert not peak.exact
    assert "be reset" in peak.note
    assert peak.peak >= peak.baseline > 0


CHILD = "held = bytearray({} * 2**20)\nprint(len(held), flush=True)\ninput()"


@on_linux
def test_memory_of_a_child_that_lives_or_ends_within_the_call_counts_and_is_marked() -> None:
    def started(megabytes: int) -> subprocess.Popen[str]:
        code = CHILD.format(megabytes)
        pipe = subprocess.PIPE
        child = subprocess.Popen([sys.executable, "-c", code], text=True, stdin=pipe, stdout=pipe)
        assert child.stdout is not None
        child.stdout.readline()
        return child

    living: list[subprocess.Popen[str]] = []
    peak = peak_of(lambda: living.append(started(150)))
    assert 150 * 2**20 < peak.increase < 250 * 2**20
    assert "child processes" in peak.note
    assert not peak.exact
    again = peak_of(lambda: None)  # it has that memory before the call and behind it
    assert again.peak > 150 * 2**20
    assert again.increase < 20 * 2**20
    living[0].communicate("\n")

    ended = peak_of(lambda: started(200).communicate("\n"))
    assert 200 * 2**20 < ended.increase < 300 * 2**20
    assert "child processes" in ended.note
    assert "child" not in peak_of(lambda: None).note


@on_linux
def test_memory_that_a_child_takes_for_each_call_is_added_by_each_and_what_it_keeps_is_seen() -> None:
    code = (
        "import sys\nkept = []\nfor line in sys.stdin:\n b = bytearray(int(line) << 20)\n"
        " kept += [b] * (len(b) < 50 << 20)\n print(len(b), flush=True)"
    )
    pipe = subprocess.PIPE
    child = subprocess.Popen([sys.executable, "-c", code], text=True, stdin=pipe, stdout=pipe, bufsize=1)
    talk = (child.stdin, child.stdout)
    assert talk[0] is not None
    assert talk[1] is not None

    def ask(megabytes: int) -> None:
        print(megabytes, file=talk[0])
        talk[1].readline()

    ask(100)
    assert 90 * 2**20 < peak_of(lambda: ask(100)).increase < 130 * 2**20
    ask(1)
    held = resident()
    ask(30)
    more = resident()
    child.communicate("")
    assert held is not None
    assert more is not None
    assert 25 * 2**20 < more - held < 40 * 2**20


def test_what_the_call_raises_passes_through() -> None:
    def fail() -> None:
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        peak_of(fail)


def test_available_is_the_smaller_of_machine_and_container(tmp_path: Path) -> None:
    tree = FakeRoot(tmp_path)
    tree.put("proc/meminfo", "MemTotal:  8000 kB\nMemAvailable:  4000 kB\n")
    assert available_bytes(tree.root) == 4000 * 1024
    tree.cgroup2("/app", {"memory.max": "3000000", "memory.current": "1000000", "memory.stat": "anon 1\n"})
    assert available_bytes(tree.root) == 2000000


def test_cache_that_can_be_dropped_counts_as_available(tmp_path: Path) -> None:
    tree = FakeRoot(tmp_path)
    tree.put("proc/meminfo", "MemTotal:  8000 kB\nMemAvailable:  4000 kB\n")
    stat = "inactive_file 5\ntotal_inactive_file 500000\n"
    tree.cgroup1(
        "memory",
        "/x",
        {"memory.limit_in_bytes": "3000000", "memory.usage_in_bytes": "1000000", "memory.stat": stat},
    )
    assert available_bytes(tree.root) == 2500000


def test_available_without_proc_comes_from_the_system(tmp_path: Path) -> None:
    assert available_bytes(str(tmp_path)) > MIB


@on_linux
def test_an_allocation_over_the_limit_raises_memory_error_and_the_process_lives() -> None:
    code = (
        "from laptime.probes.host_memory import limit_private_memory\n"
        "assert limit_private_memory(200 * 2**20)\n"
        "kept = bytearray(50 * 2**20)\n"
        "try:\n"
        "    bytearray(400 * 2**20)\n"
        "except MemoryError:\n"
        "    print('refused', len(str(list(range(1000)))) > 0)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.stdout.strip() == "refused True", run.stderr


@on_linux
def test_a_limit_below_present_use_still_leaves_room_to_report() -> None:
    code = (
        "from laptime.probes.host_memory import limit_private_memory\n"
        "limit_private_memory(1)\n"
        "try:\n"
        "    bytearray(100 * 2**20)\n"
        "except MemoryError as error:\n"
        "    import json\n"
        "    print(json.dumps({'kind': type(error).__name__}))\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.stdout.strip() == '{"kind": "MemoryError"}', run.stderr
