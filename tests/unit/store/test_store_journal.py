from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from laptime.kit.errors import UsageError
from laptime.records.event import Event, RunBuilder
from laptime.store import files, folder, lookup
from laptime.store import journal as journals
from laptime.store.journal import Journal, is_running

Events = Callable[..., list[Event]]


def write(events: list[Event], root: Path) -> Path:
    with Journal(root) as journal:
        for event in events:
            journal(event)
    assert journal.path is not None
    assert journal.complaint is None
    return journal.path


def test_finished_run_is_one_file_and_the_journal_is_gone(root: Path, make_events: Events) -> None:
    events = make_events()
    path = write(events, root)
    builder = RunBuilder()
    for event in events:
        builder(event)
    assert [p.name for p in path.parent.iterdir()] == ["20260801-142501-337-9f3a1c.json"]
    assert path.parent == root / "runs" / "2026-08"
    assert files.read(path) == builder.run()
    assert files.read(path).status == "complete"


def test_every_sample_is_on_disk_before_the_next_is_measured(root: Path, make_events: Events) -> None:
    events = make_events(blocks=3)
    with Journal(root) as journal:
        for event in events[:-3]:  # up to the third block
            journal(event)
        assert journal.path is not None
        lines = journal.path.read_text().splitlines()
        assert sum('"measured"' in line for line in lines) == 3
        assert not any('"progress"' in line for line in lines)


def test_journal_without_end_is_an_interrupted_run_with_its_samples(root: Path, make_events: Events) -> None:
    path = write(make_events(blocks=2)[:-2], root)
    run = files.read(path)
    assert run.status == "interrupted"
    assert run.cases[0].status == "interrupted"
    assert run.cases[0].series[0].samples == [0.25, 0.5, 0.75, 1.25, 1.5, 1.75]


def test_unchecked_numbers_of_an_interrupted_run_are_not_trusted(root: Path, make_events: Events) -> None:
    unchecked = files.read(write(make_events()[:-2], root))
    assert unchecked.trust == "noisy"
    checked = files.read(write(make_events()[:-1], root))  # the case was finished, the run was not
    assert checked.status == "interrupted"
    assert checked.cases[0].status == "ok"
    assert checked.trust == "trusted"


@pytest.mark.parametrize("cut", [1, 5, 40])
def test_torn_last_line_loses_only_itself(root: Path, make_events: Events, cut: int) -> None:
    path = write(make_events(blocks=2)[:-2], root)
    whole = path.read_bytes()
    path.write_bytes(whole[: -1 - cut])
    run = files.read(path)
    assert run.status == "interrupted"
    assert run.cases[0].series[0].samples == [0.25, 0.5, 0.75]
    assert "1 line" in run.checks[0].sentence


def test_damaged_line_in_the_middle_costs_no_other_line(root: Path, make_events: Events) -> None:
    path = write(make_events(blocks=3)[:-2], root)
    lines = path.read_bytes().split(b"\n")
    lines[2] = b"\xff\x00" + lines[2][:20]
    path.write_bytes(b"\n".join(lines))
    assert files.read(path).cases[0].series[0].samples == [1.25, 1.5, 1.75, 2.25, 2.5, 2.75]


@pytest.mark.parametrize("content", [b"", b"\n", b"{", b"null\n", b'{"type":"progress"}\n', b"\xff\xff\n"])
def test_journal_that_begins_no_run_is_damaged(root: Path, content: bytes) -> None:
    path = root / "x.jsonl"
    root.mkdir()
    path.write_bytes(content)
    with pytest.raises(UsageError, match="damaged") as caught:
        files.read(path)
    assert caught.value.why
    assert caught.value.next


def test_journal_of_a_newer_version_is_refused(root: Path, make_events: Events) -> None:
    path = write(make_events()[:-1], root)
    path.write_bytes(path.read_bytes().replace(b"laptime.run/2", b"laptime.run/9"))
    with pytest.raises(UsageError, match="newer laptime"):
        files.read(path)


def test_running_journal_says_running_until_its_writer_is_gone(root: Path, make_events: Events) -> None:
    with Journal(root) as journal:
        for event in make_events()[:-1]:
            journal(event)
        assert journal.path is not None
        assert is_running(journal.path)
        assert files.read(journal.path).status == "running"
    assert not is_running(journal.path)
    assert files.read(journal.path).status == "interrupted"


def test_two_runs_with_one_id_get_a_file_each(root: Path, make_events: Events) -> None:
    def one(_: int) -> Path:
        return write(make_events(), root)

    with ThreadPoolExecutor(8) as pool:
        paths = list(pool.map(one, range(24)))
    assert len(set(paths)) == 24
    for path in paths:
        assert files.read(path).id == folder.id_of(path)


def test_id_that_is_no_file_name_is_replaced(root: Path, make_events: Events) -> None:
    path = write(make_events(run_id="../../escaped"), root)
    assert path.is_relative_to(root)
    assert folder.is_id(files.read(path).id)


def test_sigkill_in_the_middle_keeps_what_was_measured(
    root: Path, make_events: Events, tmp_path: Path
) -> None:
    source = write(make_events(blocks=5)[:-2], tmp_path / "source")
    program = f"""
        import os, signal, sys
        from pathlib import Path
        import msgspec
        from laptime.records.event import Event
        from laptime.store.journal import Journal
        journal = Journal(Path({str(root)!r}))
        for line in Path({str(source)!r}).read_bytes().splitlines():
            journal(msgspec.json.decode(line, type=Event))
        os.kill(os.getpid(), signal.SIGKILL)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], timeout=60)
    assert done.returncode == -signal.SIGKILL
    run = lookup.load("last", root)
    assert run.status == "interrupted"
    assert len(run.cases[0].series[0].samples) == 15


class FullDisk:
    """Stands for os.write: takes so many bytes, then the disk is full."""

    def __init__(self, room: int, only_under: Path) -> None:
        self.room = room
        self.under = str(only_under)

    def __call__(self, file: int, data: bytes) -> int:
        if not str(Path(f"/proc/self/fd/{file}").readlink()).startswith(self.under):
            return REAL_WRITE(file, data)
        taken = min(self.room, len(data))
        if taken == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.room -= taken
        return REAL_WRITE(file, data[:taken])


REAL_WRITE = os.write


@pytest.mark.parametrize("room", [0, 100, 1200])
def test_full_disk_moves_the_run_to_the_temporary_folder(
    root: Path, make_events: Events, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(elsewhere))
    monkeypatch.setattr(os, "write", FullDisk(room, root))
    with Journal(root) as journal:
        for event in make_events():
            journal(event)
    complaint = journal.complaint
    assert complaint is not None
    assert complaint.exit_code == 2
    assert "No space" in complaint.why
    assert str(journal.path) in complaint.next
    assert journal.path is not None
    assert journal.path.is_relative_to(elsewhere)
    assert len(files.read(journal.path).cases[0].series[0].samples) == 6
    assert list(root.glob("runs/*/*")) == []


def test_no_disk_at_all_still_measures_and_says_so(
    tmp_path: Path, make_events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocker = tmp_path / "a-file"
    blocker.write_text("")
    monkeypatch.setattr(tempfile, "tempdir", str(blocker / "no"))
    with Journal(blocker / ".laptime") as journal:
        for event in make_events():
            journal(event)
    assert journal.path is None
    assert journal.complaint is not None
    assert "Not a directory" in journal.complaint.why
    assert "LAPTIME_HOME" in journal.complaint.next


def test_unwritable_folder_falls_back_from_the_first_event_on(
    tmp_path: Path, make_events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocker = tmp_path / "a-file"
    blocker.write_text("")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with Journal(blocker / ".laptime") as journal:
        for event in make_events()[:-2]:
            journal(event)
    assert journal.path is not None
    assert journal.path.suffix == ".jsonl"
    assert len(files.read(journal.path).cases[0].series[0].samples) == 6


def test_when_the_final_file_does_not_fit_the_journal_is_the_run(
    root: Path, make_events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, data: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(folder, "write_whole", full)
    path = write(make_events(), root)
    assert path.suffix == ".jsonl"
    assert files.read(path).status == "complete"
    assert files.read(path).trust == "trusted"


def test_large_run_is_compressed(root: Path, make_events: Events) -> None:
    path = write(_large(make_events), root)
    assert path.name.endswith(".json.gz")
    assert path.stat().st_size < journals.COMPRESS_ABOVE
    run = files.read(path)
    assert len(run.cases[0].series[0].samples) == 120_003
    assert lookup.find(run.id, root) == path


def _large(make_events: Events) -> list[Event]:
    from msgspec import structs

    from laptime.records.event import Measured

    events = make_events(blocks=1)
    block = next(event for event in events if isinstance(event, Measured))
    more = structs.replace(block.series, samples=[i / 7 for i in range(120_000)])
    kept = [event for event in events if type(event).__name__ != "CaseChanged"]
    return [*kept[:-1], Measured(block.key, more), kept[-1]]


def test_journal_lines_are_plain_json(root: Path, make_events: Events) -> None:
    path = write(make_events()[:-1], root)
    kinds = [json.loads(line)["type"] for line in path.read_text().splitlines()]
    assert kinds == ["run_started", "case_added", "measured", "measured", "case_changed"]
