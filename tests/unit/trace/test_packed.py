"""Packed traces are read like plain ones, and what is no trace is refused before it fills the memory."""

from __future__ import annotations

import gzip
import importlib
import json
import lzma
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from laptime.kit.errors import UsageError
from laptime.trace.reading import reader, stream

WHOLE = json.dumps(
    [
        {"ph": "X", "cat": "cpu_op", "name": f"op{n}", "pid": 1, "tid": 1, "ts": start, "dur": 3}
        for n, start in enumerate(np.random.default_rng(0).integers(1 << 40, size=20_000).tolist())
    ]
).encode()


def zipped(path: Path, *names: str) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            archive.writestr(name, WHOLE)
    return path


def zstandard() -> Any:
    for name in ("compression.zstd", "backports.zstd"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    return pytest.skip("no library for Zstandard")


def test_xz_and_zip_are_read_whatever_their_names(tmp_path: Path) -> None:
    plain = reader.parse(WHOLE)
    (tmp_path / "a.json.xz").write_bytes(lzma.compress(WHOLE, preset=0))
    zipped(tmp_path / "b.json", "folder/", "folder/trace.pt.trace.json", "readme.txt")
    for path in tmp_path.iterdir():
        trace = reader.read(path)
        assert np.array_equal(trace.host.start, plain.host.start)
        assert (trace.size, trace.warnings) == (len(WHOLE), [])


def test_zst_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.json.zst"
    path.write_bytes(zstandard().compress(WHOLE))
    assert reader.read(path).events == 20_000


def test_zst_without_a_library_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str, *more: Any) -> Any:
        raise ImportError(name)

    path = tmp_path / "a.json.zst"
    path.write_bytes(b"\x28\xb5\x2f\xfd" + bytes(20))
    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(UsageError, match="be unpacked") as error:
        reader.read(path)
    assert "pip install 'backports.zstd>=1'" in error.value.next


@pytest.mark.parametrize("cut", [0.5, 0.9])
def test_a_packed_file_cut_off_keeps_what_came_before(cut: float, tmp_path: Path) -> None:
    path = tmp_path / "a.json.xz"
    whole = lzma.compress(WHOLE, preset=0)
    path.write_bytes(whole[: int(len(whole) * cut)])
    trace = reader.read(path)
    assert 0.3 * cut * 20_000 < trace.events < 20_000
    assert trace.truncated


def test_a_zip_of_several_traces_or_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="2 traces"):
        reader.read(zipped(tmp_path / "two.zip", "rank0.json", "rank1.json"))
    with pytest.raises(UsageError, match="no trace"):
        reader.read(zipped(tmp_path / "none.zip", "a.txt"))


def test_bombs_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "_BOMB_SIZE", 8 << 20)
    event = b'{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 1},'
    for name, squeeze in (("a.json.gz", gzip.compress), ("a.json.xz", lzma.compress)):
        (tmp_path / name).write_bytes(squeeze(b"[" + event * 300_000))
        with pytest.raises(UsageError, match="not read"):
            reader.read(tmp_path / name)


def test_a_file_without_any_event_is_given_up_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "_LARGEST", 4 << 20)
    for begin in (b"[", b'{"traceEvents": [', b"{", b'[{"name": "'):
        path = tmp_path / "a.json.gz"
        path.write_bytes(gzip.compress(begin + b" " * (32 << 20)))
        with pytest.raises(UsageError, match="not a PyTorch"):
            reader.read(path)
