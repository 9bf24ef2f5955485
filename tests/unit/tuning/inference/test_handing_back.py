"""A session keeps its numbers where the folder cannot be written."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from laptime.kit.errors import UsageError
from laptime.records.event import Event, FindingAdded
from laptime.records.tuning import Gate, TunedModel, Tuning
from laptime.tuning.inference import folder_file
from laptime.tuning.inference.request import ModelRequest
from laptime.tuning.inference.session import _Session
from laptime.tuning.inference.setups import Setup
from laptime.tuning.optimization import Change, Recipe


class Live:
    """Takes events."""

    id = "run"

    def __init__(self) -> None:
        self.events: list[Event] = []

    def __call__(self, event: Event) -> None:
        self.events.append(event)


def session(tmp_path: Path, word: str) -> tuple[_Session, Live]:
    made: Any = object.__new__(_Session)
    live = Live()
    made._request = ModelRequest(target="torchvision:resnet18", export=tmp_path / "fast")
    made._evaluator = SimpleNamespace(
        folders=SimpleNamespace(form=lambda recipe: "onnx"),
        recorded=SimpleNamespace(calls=[1, 2]),
        agreements={},
    )
    made._live, made._setup = live, Setup()
    made._tuning = Tuning(gate=Gate(word=word), model=TunedModel())
    return made, live


def test_a_full_disk_is_a_finding_and_not_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> Path:
        raise UsageError("fast cannot be written", why="No space left on device")

    monkeypatch.setattr(folder_file, "hand_back", full)
    made, live = session(tmp_path, "passed")
    made._hand_back(Recipe((Change("onnxruntime"),)))
    (event,) = live.events
    assert isinstance(event, FindingAdded)
    assert "No space left on device" in event.finding.sentence
    assert made._tuning.model is not None
    assert (made._tuning.model.form, made._tuning.model.folder) == ("onnx", "")


@pytest.mark.parametrize("word", ["failed", "undecided"])
def test_a_folder_whose_outputs_did_not_pass_is_not_handed_back(
    word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_file, "hand_back", lambda *_, **__: pytest.fail("handed back"))
    made, live = session(tmp_path, word)
    made._hand_back(Recipe((Change("onnxruntime"),)))
    assert live.events == []
    assert made._tuning.recipe_path == ""
