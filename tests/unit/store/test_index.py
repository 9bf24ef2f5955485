"""The index is made from the run files and follows them; its loss or damage is never seen."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import structs

from fixtures import runs
from laptime.kit.errors import UsageError
from laptime.records.event import RunStarted
from laptime.records.run import Run
from laptime.store import files, index, lookup
from laptime.store.index import ListedRun
from laptime.store.journal import Journal

Reads = list[Path]


def listing(root: Path, limit: int | None = None) -> tuple[list[ListedRun], int]:
    """All lines at once, and the number of runs."""
    lines, total = index.listing(root, limit)
    return [*lines], total


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    """The run files that were read since the test began."""
    found: Reads = []
    real = files.read

    def read(path: Path) -> Run:
        found.append(path)
        return real(path)

    monkeypatch.setattr(files, "read", read)
    return found


def stored(root: Path, number: int, name: str = "") -> Path:
    """A run file that was written a while ago."""
    path = files.save(structs.replace(runs.trusted(), id=f"20260801-00000{number}-000-a", name=name), root)
    return aged(path, number)


def aged(path: Path, number: int = 0) -> Path:
    then = time.time_ns() - (60 - number) * 10**9
    os.utime(path, ns=(then, then))
    return path


def ids(found: tuple[list[ListedRun], int]) -> list[str]:
    return [line.id for line in found[0]]


@pytest.mark.parametrize("read", [1, 4])
def test_ctrl_c_while_the_index_is_made_keeps_what_was_read(
    root: Path, reads: Reads, monkeypatch: pytest.MonkeyPatch, read: int
) -> None:
    monkeypatch.setattr(index, "_CHUNK", 3)
    for number in range(1, 10):
        stored(root, number)
    counted = files.read

    def interrupted(path: Path) -> Run:
        if len(reads) == read:
            raise KeyboardInterrupt
        return counted(path)

    monkeypatch.setattr(files, "read", interrupted)
    with pytest.raises(KeyboardInterrupt):
        listing(root)
    monkeypatch.setattr(files, "read", counted)
    reads.clear()
    assert len(listing(root)[0]) == 9
    assert len(reads) == 9 - read


def test_the_newest_of_a_name_is_found_and_all_are_offered(root: Path) -> None:
    for number, name in enumerate(("nightly", "weekly", "nightly", ""), start=1):
        stored(root, number, name)
    listing(root)
    assert lookup.find("nightly", root).name == "20260801-000003-000-a.json"
    assert lookup.find("weekly", root).name == "20260801-000002-000-a.json"
    assert lookup.find("000004-000-a", root).name == "20260801-000004-000-a.json"
    assert lookup.find("20260801-000001-000-a", root).name == "20260801-000001-000-a.json"
    with pytest.raises(UsageError) as error:
        lookup.find("weakly", root)
    assert error.value.next == "did you mean 'weekly'?"
    assert lookup.path_of("json", root) is None, "it is in every file's name, and in no id"


def test_lines_are_read_once_and_newest_comes_first(root: Path, reads: Reads) -> None:
    stored(root, 1)
    stored(root, 2, "second")
    found, total = listing(root)
    assert [line.name for line in found] == ["second", ""]
    assert (total, len(reads)) == (2, 2)
    assert listing(root) == (found, 2)
    assert len(reads) == 2
    assert listing(root, limit=1) == (found[:1], 2)
    assert len(reads) == 2


def test_a_line_says_what_the_run_says(root: Path) -> None:
    run = runs.trusted()
    line = lines_of_one(root, run)
    assert (line.status, line.verb, line.verdict, line.cases) == (run.status, run.verb, run.trust, 1)
    assert line.first_case == run.cases[0].key
    assert line.headline is not None
    assert line.headline.ci95 is not None
    assert line.headline.ci95[0] < 0.0263 < line.headline.ci95[1]


def lines_of_one(root: Path, run: Run) -> ListedRun:
    files.save(run, root)
    (found,), _ = listing(root)
    return found


def test_files_added_changed_and_deleted_by_hand_are_noticed(root: Path, reads: Reads) -> None:
    first, second = stored(root, 1), stored(root, 2)
    listing(root)
    content = second.read_bytes()
    second.unlink()
    assert ids(listing(root)) == ["20260801-000001-000-a"]
    copy = first.with_name("20260801-000003-000-b.json")
    copy.write_bytes(content)
    assert ids(listing(root)) == ["20260801-000003-000-b", "20260801-000001-000-a"]
    aged(first, 30)
    before = len(reads)
    listing(root)
    assert first in reads[before:]


@pytest.mark.parametrize("damage", ["gone", "nonsense", "cut", "no table", "another version", "bad line"])
def test_an_index_of_no_use_is_made_anew(root: Path, damage: str, reads: Reads) -> None:
    stored(root, 1)
    expected = listing(root)
    path = root / index.NAME
    if damage == "gone":
        path.unlink()
    elif damage == "nonsense":
        path.write_bytes(b"no database" * 1000)
    elif damage == "cut":
        path.write_bytes(path.read_bytes()[:5000])
    else:
        statement = {
            "no table": "drop table lines",
            "another version": "update made set version = '0/0'",
            "bad line": "update lines set line = '{'",
        }[damage]
        with sqlite3.connect(path) as base:
            base.execute(statement)
        base.close()
    assert listing(root) == expected
    before = len(reads)
    assert listing(root) == expected
    assert len(reads) == before


def test_an_index_with_a_damaged_page_is_made_anew(root: Path, reads: Reads) -> None:
    for number in range(1, 10):
        stored(root, number, "n" * 3000)
    expected = listing(root)
    path = root / index.NAME
    content = bytearray(path.read_bytes())
    content[8192 : len(content) - 4096] = b"\xff" * (len(content) - 12288)
    path.write_bytes(content)
    assert listing(root) == expected
    before = len(reads)
    assert listing(root) == expected
    assert len(reads) == before


def test_listing_works_where_nothing_can_be_written(root: Path) -> None:
    stored(root, 1)
    (root / index.NAME).mkdir()
    assert ids(listing(root)) == ["20260801-000001-000-a"]


def test_listing_works_while_another_process_writes_the_index(root: Path) -> None:
    stored(root, 1)
    listing(root)
    stored(root, 2)
    with sqlite3.connect(root / index.NAME, isolation_level=None) as other:
        other.execute("begin immediate")
        assert len(listing(root)[0]) == 2
    other.close()


def test_a_file_that_changed_a_moment_ago_is_not_believed_to_be_done_with(root: Path, reads: Reads) -> None:
    files.save(runs.trusted(), root)
    listing(root)
    listing(root)
    assert len(reads) == 2


def test_a_running_journal_is_read_each_time(root: Path, make_run: Callable[..., Run]) -> None:
    with Journal(root) as journal:
        journal(RunStarted(make_run()))
        assert journal.path is not None
        aged(journal.path)
        for _ in range(2):
            assert [line.status for line in listing(root)[0]] == ["running"]


def test_a_damaged_file_has_a_line_with_its_fault(root: Path) -> None:
    path = stored(root, 1)
    path.write_bytes(b"{")
    aged(path)
    for _ in range(2):
        (line,), total = listing(root)
        assert (line.id, total) == ("20260801-000001-000-a", 1)
        assert line.fault


def test_of_a_run_with_two_files_the_finished_one_is_listed(root: Path) -> None:
    path = stored(root, 1, "finished")
    path.with_suffix(".jsonl").write_text("{}\n")
    assert [line.name for line in listing(root)[0]] == ["finished"]


def test_an_empty_store_makes_no_index(root: Path) -> None:
    assert listing(root) == ([], 0)
    assert not root.exists()
