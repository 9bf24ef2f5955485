"""What a folder with huge pages asks of the kernel, and what it gets."""

from __future__ import annotations

import ctypes
import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from laptime.tuning.catalogue import huge_pages
from laptime.tuning.inference import handed_back
from laptime.tuning.loop_profile import LoopProfile

TUNED = Path(handed_back.__path__[0]) / "huge_pages.py"
RUNTIME = """
import numpy

CALLS = []

def load():
    buffer = numpy.ones(48 << 20, numpy.uint8)

    def model(x):
        CALLS.append(x.shape)
        return buffer[:4].copy()

    return model
"""
SMAPS = """\
7f0000000000-7f0000a00000 rw-p 00000000 00:00 0
Size:              10240 kB
Rss:                9000 kB
7f1000100000-7f1000700000 rw-p 00000000 00:00 0                          [heap]
Size:               6144 kB
Rss:                6144 kB
7f2000000000-7f2000a00000 rw-p 00000000 00:00 0
Size:              10240 kB
Rss:                 120 kB
7f3000000000-7f3000a00000 r--p 00000000 00:00 0
Size:              10240 kB
Rss:               10240 kB
7f4000000000-7f4000a00000 rw-p 00000000 08:01 4711                       /lib/weights.so
Size:              10240 kB
Rss:               10240 kB
7f5000000000-7f5000a00000 rw-s 00000000 00:00 0
Size:              10240 kB
Rss:               10240 kB
7f6000000000-7f6000a00000 rw-p 00000000 00:00 0                          [stack]
Size:              10240 kB
Rss:               10240 kB
7f7000001000-7f7000180000 rw-p 00000000 00:00 0
Size:               1532 kB
Rss:                1532 kB
"""
"""A large region, a heap that begins between two huge pages; then a region hardly in use, one that is only
read, one of a file, a shared one, a stack, and one too small for a huge page."""


def loaded(folder: Path) -> Any:
    """tuned.py of a folder with the runtime above, not yet `load`ed."""
    (folder / "tuned.py").write_text(TUNED.read_text())
    (folder / "runtime.py").write_text(RUNTIME)
    spec: Any = importlib.util.spec_from_file_location("tuned", folder / "tuned.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int, int]]:
    calls: list[tuple[int, int, int]] = []
    library = SimpleNamespace(madvise=lambda at, size, advice: calls.append((at.value, size.value, advice)))
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library)
    return calls


def test_only_private_memory_that_is_in_use_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tuned, calls = loaded(tmp_path), asked(monkeypatch)
    tuned.MAPS = tmp_path / "smaps"
    tuned.MAPS.write_text(SMAPS)
    tuned.advise()
    assert [(hex(at), size >> 20, advice) for at, size, advice in calls] == [
        ("0x7f0000000000", 10, 14),
        ("0x7f0000000000", 10, 25),
        ("0x7f1000200000", 4, 14),
        ("0x7f1000200000", 4, 25),
    ]


def test_once_a_shape_and_sixteen_shapes_at_most(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tuned = loaded(tmp_path)
    times: list[int] = []
    monkeypatch.setattr(tuned, "advise", lambda: times.append(1))
    model = tuned.load()
    for size in (3, 3, 5, 3):
        assert model(np.zeros(size)).tolist() == [1, 1, 1, 1]
    assert len(times) == 2
    for size in range(100):
        model(np.zeros(size))
    assert len(times) == 16


def test_where_there_is_no_such_file_nothing_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tuned, calls = loaded(tmp_path), asked(monkeypatch)
    tuned.MAPS = tmp_path / "none"
    tuned.load()(np.zeros(3))
    assert calls == []


@pytest.mark.skipif(sys.platform != "linux", reason="huge pages are Linux's")
def test_the_kernel_gives_them(tmp_path: Path) -> None:
    if why := huge_pages.why_not(LoopProfile()):
        pytest.skip(why)

    def on_huge_pages() -> int:
        lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("AnonHugePages"))

    model = loaded(tmp_path).load()
    before = on_huge_pages()
    outputs = model(np.zeros(3))
    assert outputs.tolist() == [1, 1, 1, 1]
    assert on_huge_pages() - before >= 2048
