"""A watch for an import: it calls back once, after the import, whoever has looked for the module before."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from laptime.instrument.importing import WhenImported

NAME = "a_library_that_is_watched"


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The source of a module of this name, not imported yet."""
    monkeypatch.syspath_prepend(tmp_path)
    source = tmp_path / f"{NAME}.py"
    source.write_text("whole = True\n")
    before = list(sys.meta_path)
    yield source
    sys.meta_path[:] = before
    sys.modules.pop(NAME, None)


def watch(calls: list[str], name: str = "seen") -> WhenImported:
    """A watch that adds this name when the module is there whole."""
    watching = WhenImported(NAME, lambda: calls.append(name if sys.modules[NAME].whole else "half"))
    watching.install()
    return watching


def test_who_looks_for_the_module_first_does_not_end_the_watch(library: Path) -> None:
    calls: list[str] = []
    watching = watch(calls)
    for _ in range(3):
        assert importlib.util.find_spec(NAME) is not None
    assert calls == []
    importlib.import_module(NAME)
    assert calls == ["seen"]
    assert watching not in sys.meta_path


def test_several_watches_are_each_called_once(library: Path) -> None:
    calls: list[str] = []
    watch(calls, "first")
    watch(calls, "second")
    importlib.util.find_spec(NAME)
    module = importlib.import_module(NAME)
    importlib.reload(module)
    assert sorted(calls) == ["first", "second"]


def test_an_import_that_fails_is_no_import(library: Path) -> None:
    calls: list[str] = []
    watch(calls)
    library.write_text("raise ImportError\n")
    with pytest.raises(ImportError):
        importlib.import_module(NAME)
    assert calls == []
    library.write_text("whole = True\nmended = 'after it failed'\n")
    importlib.invalidate_caches()
    importlib.import_module(NAME)
    assert calls == ["seen"]


def test_a_watch_that_was_removed_says_nothing(library: Path) -> None:
    calls: list[str] = []
    watching = watch(calls)
    spec = importlib.util.find_spec(NAME)
    watching.remove()
    assert spec is not None
    importlib.import_module(NAME)
    assert calls == []


def test_a_module_that_is_not_there_is_not_made_up() -> None:
    calls: list[str] = []
    watching = WhenImported("no_such_module_at_all", lambda: calls.append("seen"))
    watching.install()
    try:
        assert importlib.util.find_spec("no_such_module_at_all") is None
    finally:
        watching.remove()
    assert calls == []
