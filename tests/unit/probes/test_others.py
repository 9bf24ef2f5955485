"""What the machine was busy with, as /proc/stat tells it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from laptime.probes import others


def stat(folder: Path, text: str) -> str:
    (folder / "proc").mkdir()
    (folder / "proc/stat").write_text(text)
    return str(folder)


def test_idle_waiting_for_disks_and_what_the_hypervisor_took_are_not_busy(tmp_path: Path) -> None:
    root = stat(tmp_path, "cpu  100 20 30 9999 888 4 6 777 50 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n")
    assert others.busy(root) == pytest.approx((100 + 20 + 30 + 4 + 6) / os.sysconf("SC_CLK_TCK"))


@pytest.mark.parametrize("text", ["", "cpu  1 2 3\n", "cpu  a b c d e f g h i j\n", "intr 1 2 3 4 5 6 7 8\n"])
def test_what_is_not_told_is_none(tmp_path: Path, text: str) -> None:
    assert others.busy(stat(tmp_path, text)) is None
    assert others.busy(str(tmp_path / "nowhere")) is None


@pytest.mark.skipif(others.busy() is None, reason="this system does not tell")
def test_what_this_process_uses_is_seen() -> None:
    before, end = others.busy(), time.process_time() + 0.2
    while time.process_time() < end:
        pass
    after = others.busy()
    assert before is not None
    assert after is not None
    assert after - before > 0.1


BURN = "import time\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\ninput()"


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="this system does not tell")
def test_children_count_while_they_live_and_after_they_have_ended() -> None:
    before = others.children()
    with subprocess.Popen(
        [sys.executable, "-c", BURN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        alive = others.children() - before
        child.communicate("\n")
    assert alive > 0.25
    assert others.children() - before >= alive - 0.03  # both are told in ticks of 10 ms


def test_a_process_without_a_list_of_children_has_none(tmp_path: Path) -> None:
    assert others.children(root=str(tmp_path)) == 0.0


def test_what_this_process_uses_is_not_that_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    class Scripted:
        """Ten seconds pass between two readings; this process uses four of them."""

        def __init__(self) -> None:
            self.seconds, self.used = iter((100.0, 110.0)), iter((1.0, 5.0))

        def now(self) -> float:
            return next(self.seconds)

        def cpu(self) -> float:
            return next(self.used)

        def sleep(self, seconds: float) -> None:
            raise NotImplementedError

    busy, below = iter((50.0, 66.0)), iter((2.0, 5.0))
    monkeypatch.setattr(others, "busy", lambda: next(busy))
    monkeypatch.setattr(others, "children", lambda: next(below))
    assert others.OthersMeter(Scripted()).cpus() == pytest.approx((16 - 4 - 3) / 10)
