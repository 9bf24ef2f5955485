"""When a session of `tune` can be resumed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from subprocess import PIPE

import msgspec
import pytest
from msgspec import structs

from fixtures import tunings
from laptime.kit.errors import UsageError
from laptime.records.event import Progress, RungDecided
from laptime.records.tuning import Applied, Rung
from laptime.tuning.inference.subject import TimedCalls
from laptime.tuning.session.journal import SessionJournal, is_over


def test_a_session_that_found_its_answer_is_over():
    assert is_over(tunings.full())
    assert is_over(tunings.nothing())


def test_what_the_budget_ended_or_what_is_open_can_be_resumed():
    assert not is_over(tunings.interrupted())
    full = tunings.full()
    assert not is_over(structs.replace(full, tuning=structs.replace(full.tuning, ended="budget")))
    speedup = structs.replace(full.tuning.speedup, word="unclear")
    assert not is_over(structs.replace(full, tuning=structs.replace(full.tuning, speedup=speedup)))


RUNGS = [Rung(name="threads", ratios=[1.1, 1.2]), Rung(name="tf32"), Rung(name="threads", dropped=True)]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LAPTIME_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def journal(*, resume: bool = False, **terms: bool) -> SessionJournal:
    return SessionJournal(["train.py", terms], "this script", resume=resume, save=True)


def test_decisions_are_read_again_in_their_order(home: Path) -> None:
    first = journal()
    assert journal(resume=True).rungs == []
    for rung in RUNGS[:2]:
        first(RungDecided(rung))
        first(Progress(0.5, 1.0, "not kept"))
    second = journal(resume=True)
    assert second.rungs == RUNGS[:2]
    second(RungDecided(RUNGS[2]))
    assert journal(resume=True).rungs == RUNGS
    assert journal().rungs == []
    assert journal(resume=True).rungs == [], "a new session begins anew"


def test_a_line_that_was_cut_off_is_left_out_and_older_files_are_read(home: Path) -> None:
    path = journal().path
    assert path is not None
    lines = [b'{"program": ["train.py"]}', *(msgspec.json.encode(rung) for rung in RUNGS)]
    path.write_bytes(b"\n".join(lines)[:-5])
    resumed = journal(resume=True)
    assert resumed.rungs == RUNGS[:2]


def test_a_session_that_is_over_cannot_be_resumed(home: Path) -> None:
    journal().over()
    with pytest.raises(UsageError, match="no session"):
        journal(resume=True)
    journal()
    with pytest.raises(UsageError, match="no session"):
        journal(resume=True, strict=True)


def test_a_disk_that_takes_nothing_is_a_complaint(home: Path) -> None:
    home.write_text("a file, no folder")
    one = journal()
    one(RungDecided(RUNGS[0]))
    assert one.path is None
    assert one.complaint


HOLDS = """
import sys
from laptime.tuning.session.journal import SessionJournal
held = SessionJournal(["train.py", {}], "this script", resume=False, save=True)
print(held.complaint, flush=True)
sys.stdin.read()
"""


def test_of_two_sessions_at_once_the_first_one_keeps_its_journal(home: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLDS], stdin=PIPE, stdout=PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "\n"
        second = journal()
        assert (second.path, second.complaint) == (
            None,
            "another session with this script runs at the same time",
        )
        second(RungDecided(RUNGS[0]))
        with pytest.raises(UsageError, match="still running"):
            journal(resume=True)
        other.communicate("")
    assert journal(resume=True).rungs == []


def test_other_documents_are_kept_beside_the_decisions(home: Path) -> None:
    first = journal()
    first(RungDecided(RUNGS[0]))
    timed = TimedCalls(recipe=[Applied(name="openvino")], seconds=[0.1, 0.2], peak=3)
    first.keep(timed)
    second = journal(resume=True)
    assert (second.rungs, second.read_kept(TimedCalls)) == (RUNGS[:1], [timed])
