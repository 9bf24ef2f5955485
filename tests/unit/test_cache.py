"""The cache of measured machine facts."""

from __future__ import annotations

from pathlib import Path

import pytest

from laptime.store import cache


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAPTIME_CACHE", str(tmp_path / "cache"))


def test_what_was_put_is_got() -> None:
    assert cache.get("peaks", "abc") is None
    assert cache.put("peaks", "abc", {"flops": {"float32": 1e12}})
    assert cache.get("peaks", "abc") == {"flops": {"float32": 1e12}}
    assert cache.get("peaks", "other") is None


def test_a_damaged_file_counts_as_absent() -> None:
    cache.put("peaks", "abc", {})
    (cache.folder() / "peaks-abc.json").write_text("{half")
    assert cache.get("peaks", "abc") is None


def test_a_key_cannot_leave_the_folder() -> None:
    cache.put("peaks", "../../evil", {"a": 1})
    assert [file.parent for file in cache.folder().parent.rglob("*.json")] == [cache.folder()]
    assert cache.get("peaks", "../../evil") == {"a": 1}


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LAPTIME_CACHE", str(tmp_path / "file" / "below"))
    assert not cache.put("peaks", "abc", {})
    assert cache.get("peaks", "abc") is None


def test_the_folder_follows_the_users_wishes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LAPTIME_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert cache.folder() == Path("/x/laptime")


def test_no_half_written_file_is_left(tmp_path: Path) -> None:
    with pytest.raises(TypeError):
        cache.put("peaks", "abc", {"a": object()})
    assert list(cache.folder().iterdir()) == []
