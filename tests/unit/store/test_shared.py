"""A store that several machines share, in a folder: nothing lost, nothing twice, no stranger trusted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from msgspec import structs

from fixtures import runs
from laptime.apps.cli.main import run as laptime
from laptime.kit.errors import ExitCode, Unavailable, UsageError
from laptime.records.event import RunFinished, RunStarted
from laptime.store import files, folder, lookup, shared
from laptime.store.journal import Journal

pytest.importorskip("fsspec")


def stored(root: Path, number: int, name: str = "") -> Path:
    run = structs.replace(runs.trusted(), id=f"20260801-1425{number:02}-337-9f3a1c", name=name)
    return files.save(run, root)


@pytest.fixture
def machines(tmp_path: Path) -> tuple[Path, Path, str]:
    """Two machines with three runs each, and the address of their store."""
    for machine, numbers in (("a", (1, 2, 3)), ("b", (11, 12, 13))):
        for number in numbers:
            stored(tmp_path / machine, number)
    return tmp_path / "a", tmp_path / "b", f"file://{tmp_path}/store"


def content(root: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in files.list_files(root)}


def test_every_machine_gets_the_runs_of_all_and_keeps_its_own(machines: tuple[Path, Path, str]) -> None:
    a, b, store = machines
    before = content(a), content(b)
    assert shared.push(store, root=a) == (3, 0, 0)
    assert shared.push(store, root=b) == (3, 0, 0)
    assert shared.pull(store, root=a) == (3, 3, 0)
    assert shared.pull(store, root=b) == (3, 3, 0)
    assert content(a) == content(b) == {**before[0], **before[1]}
    assert len(list(shared.mirror(store).rglob("*.json*"))) == 6


def test_the_same_again_does_nothing(machines: tuple[Path, Path, str]) -> None:
    a, _, store = machines
    shared.push(store, root=a)
    kept = {path: path.stat().st_mtime_ns for path in Path(store.removeprefix("file://")).rglob("*.json*")}
    assert shared.push(store, root=a) == (0, 3, 0)
    assert shared.pull(store, root=a) == (0, 3, 0)
    assert {path: path.stat().st_mtime_ns for path in kept} == kept


def test_a_push_that_was_cut_off_goes_on(
    machines: tuple[Path, Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b, store = machines
    write, written = shared._Folder.write, list[str]()

    def cut_off(self: shared._Folder, name: str, data: bytes) -> None:
        if written:
            raise OSError("the disk is full")
        written.append(name)
        write(self, name, data)

    monkeypatch.setattr(shared._Folder, "write", cut_off)
    with pytest.raises(UsageError, match="cannot be used as a store") as error:
        shared.push(store, root=a)
    assert error.value.why == "the disk is full"
    monkeypatch.undo()
    assert shared.push(store, root=a) == (2, 1, 0)
    assert shared.pull(store, root=b).new == 3


def test_two_files_of_one_id_are_both_there_and_each_machine_keeps_its_own(tmp_path: Path) -> None:
    ours, theirs = stored(tmp_path / "a", 1, "ours"), stored(tmp_path / "b", 1, "theirs")
    for machine in ("a", "b"):
        assert shared.push(str(tmp_path / "store"), root=tmp_path / machine).new == 1
    for machine in ("a", "b"):
        assert shared.pull(str(tmp_path / "store"), root=tmp_path / machine).new == 0
    assert (files.read(ours).name, files.read(theirs).name) == ("ours", "theirs")
    assert shared.pull(str(tmp_path / "store"), root=tmp_path / "c").new == 1  # one of them, whole


def test_what_is_damaged_or_a_strangers_is_left_out(machines: tuple[Path, Path, str]) -> None:
    a, b, store = machines
    shared.push(store, root=a)
    there = sorted(Path(store.removeprefix("file://")).rglob("*.json*"))
    there[0].write_bytes(there[0].read_bytes()[:-20])
    for name in ("readme.txt", "..%2f..%2fevil.json", f"a.{'0' * 63}g.json", f".hidden.{'0' * 64}.json"):
        (there[0].parent / name).write_text("x")
    (there[0].parent / "folder.json").mkdir()
    moved = shared.pull(store, root=b)
    assert (moved.new, moved.damaged, moved.code) == (2, 1, ExitCode.NO)
    assert {folder.id_of(path) for path in files.list_files(b)} >= {"20260801-142502-337-9f3a1c"}
    assert "1 damaged" in moved.text


def test_a_run_that_is_still_measured_is_not_pushed_before_it_ends(tmp_path: Path) -> None:
    with Journal(tmp_path / "a") as journal:
        journal(RunStarted(structs.replace(runs.trusted(), status="running")))
        assert shared.push(str(tmp_path / "store"), root=tmp_path / "a") == (0, 0, 0)
        journal(RunFinished("complete", 1.0))
    assert shared.push(str(tmp_path / "store"), root=tmp_path / "a").new == 1


def test_the_command_lines(
    machines: tuple[Path, Path, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b, store = machines
    monkeypatch.setenv("LAPTIME_HOME", str(a))
    assert laptime(["push", store]) == 0
    assert capsys.readouterr().out == "pushed: 3 runs, 0 were there already\n"
    monkeypatch.setenv("LAPTIME_HOME", str(b))
    own = content(b)
    for words in (["list"], ["show", "20260801-142502-337-9f3a1c"], ["history"]):
        assert laptime([*words, "--store", store]) == 0, words
    shown = capsys.readouterr().out
    assert "20260801-142503-337-9f3a1c" in shown
    assert "20260801-142511" not in shown  # the store's, not this machine's
    assert os.environ["LAPTIME_HOME"] == str(b)
    assert content(b) == own
    assert laptime(["pull", store]) == 0
    assert lookup.load("20260801-142502-337-9f3a1c", b)


def test_a_list_of_a_few_copies_these_and_says_that_there_are_others(
    machines: tuple[Path, Path, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    a, b, store = machines
    monkeypatch.setenv("LAPTIME_CACHE", str(tmp_path))
    for root in (a, b):
        shared.push(store, root=root)

    def copied() -> int:
        return len(list(tmp_path.glob("stores/**/*.json*")))

    for words, there, says in (
        (["-n", "2"], 3, "older runs are not shown"),
        (["-n", "5"], 6, "older runs are not shown"),
        (["-n", "6"], 6, ""),
    ):
        assert laptime(["list", "--store", store, *words]) == 0
        said = capsys.readouterr()
        assert len(said.out.splitlines()) == 1 + int(words[1])
        assert "20260801-142513-337-9f3a1c" in said.out, "the newest"
        assert copied() == there
        assert says in said.err
        assert bool(said.err) == bool(says)


def test_a_list_or_a_page_of_all_copies_all(
    machines: tuple[Path, Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, _, store = machines
    monkeypatch.setenv("LAPTIME_CACHE", str(tmp_path))
    shared.push(store, root=a)
    page = tmp_path / "runs.html"
    assert laptime(["list", "--store", store, "-n", "1", "-o", str(page)]) == 0
    assert page.read_text().count("20260801-142501-337-9f3a1c") >= 1
    stored(a, 4)
    shared.push(store, root=a)
    assert laptime(["list", "--store", store, "-n", "1", "--all"]) == 0
    assert len(list(tmp_path.glob("stores/**/*.json"))) == 4


@pytest.mark.parametrize("address", ["s3x://bucket/runs", "postgresql+mysql://a/b"])
def test_an_address_that_cannot_be_used_is_three_lines(
    address: str, machines: tuple[Path, Path, str]
) -> None:
    with pytest.raises(UsageError) as error:
        shared.push(address, root=machines[0])
    assert error.value.why
    assert error.value.next


def test_a_missing_library_is_named(
    machines: tuple[Path, Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "psycopg", None)
    with pytest.raises(Unavailable, match="psycopg") as error:
        shared.push("postgresql://somebody:hidden@localhost/runs", root=machines[0])
    assert "laptime[store]" in error.value.next
    assert "hidden" not in str(error.value)
