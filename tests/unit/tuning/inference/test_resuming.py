"""A model's session that was killed goes on where it ended."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import pytest

from fixtures.scripted_model import ScriptedModel, World
from laptime.kit.errors import UsageError
from laptime.records.tuning import Tuning
from laptime.tuning.inference import subject
from laptime.tuning.inference.request import ModelRequest
from laptime.tuning.inference.subject import journal_of, tune_model
from laptime.tuning.optimization import Change, Recipe
from laptime.tuning.search.evaluator import Round, TrialFailed

FACTORS = {"good": 0.5, "late": 0.7}
TARGET = "torchvision:resnet18"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAPTIME_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(subject, "ModelEvaluator", Interrupted)
    monkeypatch.setattr(subject, "check", lambda request: None)


made: list[Interrupted] = []


class Interrupted(ScriptedModel):
    """Ctrl-C when the race of `stop` begins."""

    stop = ""

    def __init__(self, request: ModelRequest, folder: Path) -> None:
        super().__init__(World(FACTORS))
        self.request = request
        made.append(self)

    def race(self, incumbent: Recipe, candidate: Recipe, *, fresh: bool = False) -> Generator[Round]:
        if self.stop in candidate.names:
            raise KeyboardInterrupt
        return super().race(incumbent, candidate, fresh=fresh)

    def fleet(self, *_: object) -> None:
        raise TrialFailed("refused", "scripted models have no processes")


def ratios(tuning: Tuning, name: str) -> list[float]:
    """Rounds of the first race of a change."""
    return next(rung.ratios for rung in tuning.ladder if rung.name == name)


def session(request: ModelRequest, stop: str = "") -> tuple[Interrupted, Tuning]:
    Interrupted.stop = stop
    run = tune_model(request)
    assert run.tuning is not None
    return made[-1], run.tuning


def test_what_was_decided_and_timed_is_taken_over(tmp_path: Path) -> None:
    request = ModelRequest(target=TARGET, goal="latency")
    stopped, before = session(request, stop="late")
    assert [each.name for each in before.recipe] == ["good"]
    _, after = session(replace(request, resume=True))
    assert ratios(after, "good") == ratios(before, "good")
    assert {each.name for each in after.recipe} == {"good", "late"}
    assert after.model is not None
    labels = [each.label for each in after.model.points]
    assert {"as it is", "good", "good, late"} <= set(labels)
    calls = {each.label: each.calls for each in after.model.points}
    as_it_is = stopped.timings[Recipe()]
    assert calls["good"] >= len(stopped.timings[Recipe((Change("good"),))].seconds)
    assert calls["as it is"] >= len(as_it_is.seconds)


@pytest.mark.parametrize(
    "changed", [{"goal": "throughput"}, {"slo": "1ms"}, {"batch": 4}, {"only": ["threads"]}]
)
def test_another_session_is_not_gone_on_with(changed: dict[str, object]) -> None:
    session(ModelRequest(target=TARGET, goal="latency"), stop="late")
    with pytest.raises(UsageError, match="no session"):
        journal_of(ModelRequest(target=TARGET, **{"goal": "latency", **changed}, resume=True))  # type: ignore[arg-type]


def test_a_file_that_was_edited_is_another_model(tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_text("def build():\n    return 1\n")
    journal_of(ModelRequest(target=f"{file}:build"))
    journal_of(ModelRequest(target=f"{file}:build", resume=True))
    file.write_text("def build():\n    return 2\n")
    with pytest.raises(UsageError, match="no session"):
        journal_of(ModelRequest(target=f"{file}:build", resume=True))


def test_a_dry_run_keeps_nothing() -> None:
    assert journal_of(ModelRequest(target=TARGET, dry_run=True)).path is None
