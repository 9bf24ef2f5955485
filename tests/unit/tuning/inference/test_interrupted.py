"""Ctrl-C in a session of a model: what was kept until then is handed back."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from fixtures.scripted_model import ScriptedModel, World
from laptime.records.event import ignore
from laptime.records.tuning import Tuning
from laptime.store.live_run import LiveRun
from laptime.tuning.inference import folder_file
from laptime.tuning.inference.subject import ModelSubject
from laptime.tuning.optimization import Change, Recipe
from laptime.tuning.search.evaluator import Round
from laptime.tuning.session.session import Session

GOOD = Recipe((Change("good"),))


class Interrupted(ScriptedModel):
    """The user presses Ctrl-C when the race of `late` begins."""

    def race(self, incumbent: Recipe, candidate: Recipe, *, fresh: bool = False) -> Generator[Round]:
        if "late" in candidate.names:
            raise KeyboardInterrupt
        return super().race(incumbent, candidate, fresh=fresh)


@pytest.fixture
def handed_back(monkeypatch: pytest.MonkeyPatch) -> list[Recipe]:
    """Recipes whose folders were handed back."""
    recipes: list[Recipe] = []

    def hand_back(evaluator: Any, recipe: Recipe, place: Path, *_: Any, **__: Any) -> Path:
        recipes.append(recipe)
        return place

    monkeypatch.setattr(folder_file, "hand_back", hand_back)
    return recipes


def run(model: ScriptedModel) -> Tuning:
    made = Session(ModelSubject(model), LiveRun("tune", ignore))
    tuning = made.run()
    assert made.status == "interrupted"
    assert tuning.ended == "interrupted"
    return tuning


def test_in_the_search(handed_back: list[Recipe], tmp_path: Path) -> None:
    world = World({"good": 0.5, "late": 1.0})
    tuning = run(Interrupted(world, export=tmp_path / "fast"))
    assert [each.name for each in tuning.recipe] == ["good"]
    assert (tuning.gate.word, tuning.speedup) == ("passed", None)
    assert tuning.model is not None
    assert (tuning.model.form, tuning.model.folder) == ("onnx", str(tmp_path / "fast"))
    assert [each.label for each in tuning.model.points if each.chosen] == ["good"]
    assert handed_back == [GOOD]


def test_while_the_gain_is_measured(
    handed_back: list[Recipe], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ModelSubject, "pair", stopped)
    tuning = run(ScriptedModel(World({"good": 0.5}), export=tmp_path / "fast"))
    assert handed_back == [GOOD]
    assert tuning.recipe_path == str(tmp_path / "fast" / "recipe.json")


def test_nothing_is_handed_back_that_was_not_shown_to_keep_the_limits(
    handed_back: list[Recipe], tmp_path: Path
) -> None:
    model = Interrupted(World({"good": 0.5, "late": 1.0}), export=tmp_path / "fast", slo="1us@p99")
    tuning = run(model)
    assert [each.name for each in tuning.recipe] == ["good"]
    assert handed_back == []


def test_before_anything_was_kept(handed_back: list[Recipe], tmp_path: Path) -> None:
    tuning = run(Interrupted(World({"late": 0.5}), export=tmp_path / "fast"))
    assert (tuning.recipe, handed_back) == ([], [])


def test_a_session_beside_busy_programs_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    made = Session(ModelSubject(ScriptedModel(World({}))), LiveRun("tune", ignore))
    done = made.over(others=1.6)
    (check,) = [each for each in done.checks if each.name == "quiet"]
    assert check.outcome == "warn"
