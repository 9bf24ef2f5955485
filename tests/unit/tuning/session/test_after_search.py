"""What is handed back after Ctrl-C."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from laptime.records.run import IN_MEMORY, Subject
from laptime.records.tuning import Gate, Tuning
from laptime.tuning.optimization import Change, Recipe
from laptime.tuning.session import patching
from laptime.tuning.session.after_search import hand_back
from laptime.tuning.session.request import TuneRequest
from laptime.tuning.session.tuning_record import FinalResults


def test_a_model_in_memory_has_no_patch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patching, "PatchWriter", lambda *_: pytest.fail("wrote a patch"))
    recipe = Recipe((Change("channels_last"),))
    subject = Subject(target="a model", source=IN_MEMORY)
    program = SimpleNamespace(subject=subject)
    evaluator: Any = SimpleNamespace(
        gates={recipe: Gate(word="passed")}, runner=SimpleNamespace(program=program)
    )
    search: Any = SimpleNamespace(recipe=recipe)
    results = FinalResults("run", Tuning())
    hand_back(TuneRequest(program="a model"), evaluator, search, results)
    assert results.tuning.gate.word == "passed"
