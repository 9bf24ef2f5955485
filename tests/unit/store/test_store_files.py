from __future__ import annotations

import gzip
import math
import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from laptime.kit.errors import UsageError
from laptime.records.event import Event, RunStarted
from laptime.records.run import Run
from laptime.store import encoding, files, folder, lookup
from laptime.store.journal import Journal

Make = Callable[..., Run]


@pytest.fixture
def three(root: Path, make_run: Make) -> list[Path]:
    """Three stored runs, oldest first; the middle one has a name."""
    return [
        files.save(make_run("20260731-235959-999-aaa111", status="complete"), root),
        files.save(make_run("20260801-000000-001-bbb222", name="baseline", status="complete"), root),
        files.save(make_run("20260801-120000-000-ccc333", status="complete"), root),
    ]


def test_saved_run_reads_back_equal(root: Path, make_run: Make) -> None:
    run = make_run(status="complete")
    assert files.read(files.save(run, root)) == run


def test_runs_are_listed_newest_first_over_months(root: Path, three: list[Path]) -> None:
    assert files.list_files(root) == three[::-1]
    assert {path.parent.name for path in three} == {"2026-07", "2026-08"}


@pytest.mark.parametrize(
    ("reference", "index"),
    [
        ("last", 2),
        ("last~0", 2),
        ("last~1", 1),
        ("last~2", 0),
        ("20260731-235959-999-aaa111", 0),
        ("20260731", 0),
        ("bbb222", 1),
        ("333", 2),
        ("baseline", 1),
    ],
)
def test_run_answers_to(root: Path, three: list[Path], reference: str, index: int) -> None:
    assert lookup.find(reference, root) == three[index]


def test_path_names_a_run_from_anywhere(root: Path, three: list[Path], tmp_path: Path) -> None:
    moved = three[0].rename(tmp_path / "kept.json")
    assert lookup.load(str(moved), root).id == "20260731-235959-999-aaa111"


def test_newest_of_equal_names_is_meant(root: Path, three: list[Path], make_run: Make) -> None:
    newer = files.save(make_run("20260802-000000-000-ddd444", name="baseline", status="complete"), root)
    assert lookup.find("baseline", root) == newer


@pytest.mark.parametrize(
    ("reference", "what", "next"),
    [
        ("202608", "may mean 2 runs", "type more"),
        ("baselin", "no run matches", "did you mean 'baseline'?"),
        ("last~3", "no run last~3", "laptime list"),
        ("last~99999999999999", "no run matches", "laptime list"),
        ("nowhere.json", "no file nowhere.json", "laptime list"),
        ("", "no run matches", "laptime list"),
        ("no/such/place", "no run matches", "laptime list"),
    ],
)
def test_reference_that_means_no_run_is_explained(
    root: Path, three: list[Path], reference: str, what: str, next: str
) -> None:
    with pytest.raises(UsageError, match=what) as caught:
        lookup.find(reference, root)
    assert next in caught.value.next
    assert caught.value.why


def test_empty_store_says_how_to_fill_it(root: Path) -> None:
    with pytest.raises(UsageError, match="'last'") as caught:
        lookup.find("last", root)
    assert "laptime bench" in caught.value.next
    assert files.list_files(root) == []


def test_last_is_not_the_run_that_is_being_measured(
    root: Path, three: list[Path], make_events: Callable[..., list[Event]]
) -> None:
    with Journal(root) as journal:
        for event in make_events(run_id="20260901-000000-000-eee555")[:-1]:
            journal(event)
        assert lookup.find("last", root) == three[-1]
        assert lookup.find("eee555", root) == journal.path
    assert lookup.find("last", root) == journal.path  # interrupted by now


def test_interrupted_run_is_found_by_name(
    root: Path, make_run: Make, make_events: Callable[..., list[Event]]
) -> None:
    with Journal(root) as journal:
        for event in [RunStarted(make_run(name="crashed")), *make_events()[1:-1]]:
            journal(event)
    assert lookup.load("crashed", root).status == "interrupted"


def test_run_that_failed_before_anything_was_measured_leaves_no_file(root: Path, make_run: Make) -> None:
    with Journal(root) as journal:
        journal(RunStarted(make_run()))
    assert files.list_files(root) == []
    assert journal.path is None


def test_finished_file_counts_when_its_journal_was_left_behind(root: Path, three: list[Path]) -> None:
    three[2].with_suffix(".jsonl").write_text("{torn")
    assert files.list_files(root) == three[::-1]


@pytest.mark.parametrize("cut", [0, 1, 10, 200])
def test_cut_file_is_damaged(three: list[Path], cut: int) -> None:
    three[0].write_bytes(three[0].read_bytes()[:cut])
    with pytest.raises(UsageError, match="damaged") as caught:
        files.read(three[0])
    assert caught.value.why


def test_damage_is_told_with_its_place_inside_the_file(three: list[Path]) -> None:
    document = msgspec.json.decode(three[0].read_bytes())
    document["cases"] = [{"key": "a", "target": "a", "axes": {}, "series": [{"samples": "x"}]}]
    three[0].write_bytes(msgspec.json.encode(document))
    with pytest.raises(UsageError) as caught:
        files.read(three[0])
    assert "$.cases[0].series[0]" in caught.value.why
    assert str(three[0]) in caught.value.what


def test_a_file_that_unpacks_to_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LARGEST", 1 << 20)
    path = tmp_path / "bomb.json.gz"
    path.write_bytes(gzip.compress(b" " * (3 << 20)))
    with pytest.raises(UsageError, match="is damaged") as caught:
        files.read(path)
    assert "1 MiB" in caught.value.why


@pytest.mark.parametrize(
    "content", [b"not gzip", gzip.compress(b"x" * 5000, mtime=0)[:-20], gzip.compress(b"{", mtime=0)]
)
def test_damaged_compressed_file_is_an_error_in_three_lines(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.json.gz"
    path.write_bytes(content)
    with pytest.raises(UsageError, match="damaged") as caught:
        files.read(path)
    assert caught.value.why
    assert caught.value.next


@pytest.mark.parametrize("content", [b"[" * 100_000, b'"\xff"', b"null", b"[]", b"1"])
def test_hostile_file_is_an_error_in_three_lines(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(content)
    with pytest.raises(UsageError):
        files.read(path)


def test_unknown_fields_are_ignored(three: list[Path]) -> None:
    before = files.read(three[1])
    document = msgspec.json.decode(three[1].read_bytes()) | {"invented": {"later": [1]}}
    three[1].write_bytes(msgspec.json.encode(document))
    assert files.read(three[1]) == before


def test_newer_schema_is_refused_with_the_remedy(three: list[Path]) -> None:
    three[0].write_bytes(three[0].read_bytes().replace(b"laptime.run/2", b"laptime.run/3"))
    with pytest.raises(UsageError, match="newer laptime") as caught:
        files.read(three[0])
    assert "git pull" in caught.value.next


def test_minor_version_of_a_known_schema_reads(three: list[Path]) -> None:
    three[0].write_bytes(three[0].read_bytes().replace(b"laptime.run/2", b"laptime.run/2.7"))
    assert files.read(three[0]).schema == "laptime.run/2.7"


@pytest.mark.parametrize("schema", ["", "other/1", "laptime.run/x", "laptime.run/0", "laptime.run/-1"])
def test_document_of_another_kind_is_no_run(tmp_path: Path, schema: str) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(msgspec.json.encode({"schema": schema}))
    with pytest.raises(UsageError, match="not a laptime"):
        files.read(path)


def test_folder_keeps_results_out_of_git_only_where_it_made_the_folder(
    root: Path, tmp_path: Path, make_run: Make
) -> None:
    files.save(make_run(), root)
    assert (root / ".gitignore").read_text().splitlines()[-1] == "*"
    somebody = tmp_path / "theirs"
    somebody.mkdir()
    files.save(make_run(), somebody)
    assert not (somebody / ".gitignore").exists()


def test_home_is_in_the_current_folder_unless_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LAPTIME_HOME", raising=False)
    assert folder.home() == Path(".laptime")
    monkeypatch.setenv("LAPTIME_HOME", "/elsewhere")
    assert folder.home() == Path("/elsewhere")


def test_ids_made_later_sort_later_and_are_file_names() -> None:
    import time

    first = folder.new_id()
    time.sleep(0.002)
    assert first < folder.new_id()
    assert len({folder.new_id() for _ in range(200)}) == 200
    assert folder.is_id(first)
    assert not any(folder.is_id(text) for text in ("", "a/b", "..", "a.b", "-x"))


def test_failed_write_leaves_the_old_file_and_no_draft(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "report.html"
    folder.write_whole(path, b"old")

    def fails(file: int) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(OSError, match="No space"):
        folder.write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_full_device_is_reported() -> None:
    with pytest.raises(OSError, match="No space"):
        folder.write_whole(Path("/dev/full"), b"x")


def test_link_is_followed_not_replaced(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_bytes(b"old")
    link = tmp_path / "link"
    link.symlink_to(target)
    folder.write_whole(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


def test_long_columns_of_numbers_are_not_walked_one_by_one() -> None:
    column, broken = [0.5] * 100, [0.5, math.inf, 0.5]
    told = encoding.spell_out({"whole": column, "broken": broken, "texts": ["x", None], "huge": [10**400]})
    assert told["whole"] is column
    assert told["broken"] == [0.5, "inf", 0.5]
    assert told["texts"] == ["x", None]
    assert told["huge"] == [10**400]
