"""A verb's events become a run, are kept, and are told: in this order."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from fixtures import tunings
from laptime.probes import machine
from laptime.records.check import Check
from laptime.records.event import (
    ChecksMade,
    Diagnosed,
    Event,
    GainMeasured,
    Listener,
    Progress,
    RungDecided,
    RunStarted,
    TuningChanged,
)
from laptime.records.run import Run
from laptime.records.tuning import Diagnosis, Measured, Rung
from laptime.store import files, lookup
from laptime.store.journal import Journal
from laptime.store.live_run import LiveRun, record_run

CHECK = Check(name="mine", outcome="ok", sentence="fine")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LAPTIME_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def verb(emit: Listener) -> Run:
    live = LiveRun("trace", emit)
    live.say("reading", 0.5, 3.0)
    live.start(name="mine", environment=machine.environment())
    live(ChecksMade([CHECK]))
    return live.finish()


def test_a_run_grows_keeps_its_id_and_is_stored() -> None:
    heard: list[Event] = []
    run, complaint = record_run(verb, heard.append)
    assert complaint is None
    assert (run.verb, run.name, run.status, run.checks) == ("trace", "mine", "complete", [CHECK])
    assert 0 < run.seconds < 60
    assert heard[0] == Progress(0.5, 3.0, "reading")
    assert isinstance(heard[1], RunStarted)
    assert heard[1].run.id == run.id
    assert lookup.load("mine") == run


def test_what_is_told_is_on_disk_already(home: Path) -> None:
    def listen(event: Event) -> None:
        if isinstance(event, ChecksMade):
            assert files.read(files.list_files()[0]).checks == [CHECK]

    record_run(verb, listen)


def test_a_run_that_is_not_kept_says_so(home: Path) -> None:
    run, complaint = record_run(verb, save=False)
    assert complaint is None
    assert run.plan["save"].value is False
    assert not home.exists()


def test_a_disk_that_takes_nothing_costs_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*ignored: Any) -> int:
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(Journal, "_open", full)
    run, complaint = record_run(verb)
    assert run.checks == [CHECK]
    assert run.plan["save"].value is False
    assert complaint is not None
    assert "no space" in complaint.why


def test_a_verb_that_fails_before_it_found_anything_leaves_no_run(home: Path) -> None:
    def failing(emit: Listener) -> Run:
        LiveRun("tune", emit).start(environment=machine.environment())
        raise ValueError("no luck")

    with pytest.raises(ValueError, match="no luck"):
        record_run(failing)
    assert files.list_files() == []


RUNG = Rung(name="threads", label="threads=1", options={"threads": 1}, verdict="faster", kept=True)


def test_a_killed_session_is_an_interrupted_run_with_its_decisions(home: Path) -> None:
    before, after = Diagnosis(step=2.0), Diagnosis(step=1.0)
    with Journal() as journal:
        live = LiveRun("tune", journal)
        live.start(environment=machine.environment())
        live(Diagnosed(before))
        live(RungDecided(RUNG))
        live(Diagnosed(after))
        live(RungDecided(Rung(name="other", verdict="slower")))
        live(GainMeasured(Measured(step=2.0), Measured(step=1.0)))
    run = lookup.load("last")
    assert run.status == "interrupted"
    assert run.tuning is not None
    assert (run.tuning.before, run.tuning.after, run.tuning.ended) == (before, after, "interrupted")
    assert [rung.name for rung in run.tuning.ladder] == ["threads", "other"]
    assert [change.name for change in run.tuning.recipe] == ["threads"]
    assert run.tuning.final == Measured(step=1.0)


def test_a_decision_that_is_changed_stands_once() -> None:
    live = LiveRun("tune", lambda event: None)
    live.start(environment=machine.environment())
    live(RungDecided(RUNG))
    live(RungDecided(Rung(name="threads", options={"threads": 1}, verdict="faster", dropped=True)))
    tuning = live.run().tuning
    assert tuning is not None
    assert [(rung.kept, rung.dropped) for rung in tuning.ladder] == [(False, True)]
    assert tuning.recipe == []
    full = tunings.full().tuning
    assert full is not None
    live(TuningChanged(full))
    assert live.run().tuning == full
