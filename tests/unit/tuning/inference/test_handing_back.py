"""A session keeps its numbers where the folder cannot be written."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fixtures.scripted_model import ScriptedModel, World
from laptime.kit.errors import UsageError
from laptime.probes import machine
from laptime.records.event import Event, FindingAdded
from laptime.records.tuning import Gate, GateWord, TunedModel
from laptime.store.live_run import LiveRun
from laptime.tuning.inference import folder_file
from laptime.tuning.inference.subject import ModelSubject
from laptime.tuning.optimization import Change, Recipe
from laptime.tuning.session.subject import Record

SEARCH: Any = SimpleNamespace(recipe=Recipe((Change("onnxruntime"),)))


def session(tmp_path: Path, word: GateWord) -> tuple[ModelSubject, Record, list[Event]]:
    model = ScriptedModel(World({}), export=tmp_path / "fast")
    events: list[Event] = []
    subject = ModelSubject(model)
    record = Record(LiveRun("tune", events.append), model.request, model.elapsed, model=TunedModel())
    record.live.start(environment=machine.environment(), tuning=record.tuning, **subject.run_fields())
    record.set(gate=Gate(word=word))
    events.clear()
    return subject, record, events


def test_a_full_disk_is_a_finding_and_not_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> Path:
        raise UsageError("fast cannot be written", why="No space left on device")

    monkeypatch.setattr(folder_file, "hand_back", full)
    subject, record, events = session(tmp_path, "passed")
    subject.hand_back(record, SEARCH)
    (event,) = events
    assert isinstance(event, FindingAdded)
    assert "No space" in event.finding.sentence
    assert record.tuning.model is not None
    assert (record.tuning.model.form, record.tuning.model.folder) == ("onnx", "")


@pytest.mark.parametrize("word", ["failed", "undecided"])
def test_a_folder_whose_outputs_did_not_pass_is_not_handed_back(
    word: GateWord, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_file, "hand_back", lambda *_, **__: pytest.fail("handed back"))
    subject, record, events = session(tmp_path, word)
    subject.hand_back(record, SEARCH)
    assert events == []
    assert record.tuning.recipe_path == ""
