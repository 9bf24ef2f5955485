"""What is handed back after Ctrl-C, and the recipe beside the patched script."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from laptime.records.event import ignore
from laptime.records.run import IN_MEMORY
from laptime.records.run import Subject as RunSubject
from laptime.records.tuning import Gate
from laptime.store.live_run import LiveRun
from laptime.tuning.optimization import Change, Recipe
from laptime.tuning.script import subject
from laptime.tuning.script.request import TuneRequest
from laptime.tuning.session.subject import Record


def test_a_model_in_memory_has_no_patch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "PatchWriter", lambda *_: pytest.fail("wrote a patch"))
    recipe = Recipe((Change("channels_last"),))
    program = SimpleNamespace(subject=RunSubject(target="a model", source=IN_MEMORY))
    evaluator: Any = SimpleNamespace(
        gates={recipe: Gate(word="passed")}, runner=SimpleNamespace(program=program)
    )
    search: Any = SimpleNamespace(recipe=recipe)
    request = TuneRequest(program="a model")
    record = Record(LiveRun("tune", ignore), request, lambda: 0.0)
    subject.ScriptSubject(request, evaluator).hand_back_so_far(record, search)
    assert record.tuning.gate.word == "passed"


@pytest.mark.parametrize("is_fresh", [True, False])
def test_the_recipe_is_run_as_in_the_pair_that_it_is_held_against(
    monkeypatch: pytest.MonkeyPatch, is_fresh: bool
) -> None:
    """A fork leaves out another number of steps: its losses are those of other steps than a fresh one's."""
    asked: dict[str, object] = {}

    def alone(runner: object, recipe: Recipe, number: int, *, fresh: bool) -> None:
        asked.update(number=number, fresh=fresh)

    monkeypatch.setattr("laptime.tuning.script.fresh_pairs.alone", alone)
    made = object.__new__(subject.ScriptSubject)
    made.apart, made._is_fresh, made._pairs = "", is_fresh, [MagicMock()] * 3
    made._runner = MagicMock()
    made._alone(Recipe())
    assert asked == {"number": 2, "fresh": is_fresh}


@pytest.mark.parametrize("name", ["cache_dataset", "channels_last"])
def test_a_gain_of_later_epochs_is_measured_and_said_as_such(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Every epoch but the first finds its samples in the cache, in the patched script as in a race."""
    asked: list[Recipe] = []
    monkeypatch.setattr(
        "laptime.tuning.script.fresh_pairs.in_turns", lambda _, final, *__, **___: asked.append(final)
    )
    monkeypatch.setattr("laptime.tuning.script.fresh_pairs.pair_of", lambda pair: pair)
    monkeypatch.setattr("laptime.tuning.script.fresh_pairs.why_apart", lambda _: "")
    monkeypatch.setattr(subject, "fewest_rounds", lambda _: 1)
    made = subject.ScriptSubject(TuneRequest(program="train.py"), MagicMock())
    made._runner = MagicMock(elapsed=lambda: 0.0, accounting=MagicMock(ending=0.0))
    made._sources = {"train.py": "copy.py"}
    assert made.checks() == []
    made.pair(Recipe((Change("pin_memory"), Change(name))), 0, until=60.0)
    is_filled = name == "cache_dataset"
    assert asked == [Recipe((Change(name, {"patched": True}),) if is_filled else ())]
    assert ["second epoch" in check.sentence for check in made.checks()] == [True] * is_filled
