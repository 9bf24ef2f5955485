from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

import laptime
from laptime.trace.reading.trace_files import find, rank_in


class Profiler:
    """Stands for torch.profiler.profile."""

    def export_chrome_trace(self, path: str) -> None:
        data = json.dumps({"traceEvents": []}).encode()
        Path(path).write_bytes(gzip.compress(data) if path.endswith(".gz") else data)


def test_each_trace_of_each_rank_is_a_file_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    profiler: Any = Profiler()
    for rank in ("0", "3"):
        monkeypatch.setenv("RANK", rank)
        handle = laptime.trace_handler(tmp_path / "a" / "b")
        handle(profiler)
        handle(profiler)
    written = sorted(path.name for path in (tmp_path / "a" / "b").iterdir())
    assert len(written) == 4
    assert all(name.endswith(".pt.trace.json.gz") for name in written)
    assert [rank_in(name) for name in written] == [0, 0, 3, 3]
    latest = find([tmp_path / "a" / "b"]).paths
    assert [rank_in(path.name) for path in latest] == [0, 3]


def test_a_trace_can_be_named_and_plain(tmp_path: Path) -> None:
    profiler: Any = Profiler()
    laptime.trace_handler(tmp_path, "node7", use_gzip=False)(profiler)
    (path,) = tmp_path.iterdir()
    assert path.name.startswith("node7.")
    assert json.loads(path.read_text()) == {"traceEvents": []}
