"""Real processes: outputs at the chosen batch size, outputs of shapes that depend on inputs, two sessions."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.array_folders import AS_IS, evaluator
from laptime.kit.errors import UsageError
from laptime.records.tuning import Gate, Tuning
from laptime.tuning.inference import folder_file
from laptime.tuning.inference.evaluator import ModelEvaluator
from laptime.tuning.optimization import Change, Recipe
from laptime.tuning.search.evaluator import TrialFailed

FORMULAS = {
    AS_IS: "2 * x",
    "right": "x + x",
    "wrong": "2 * x if len(x) < 8 else 2 * x[::-1]",
    "baked": "2 * x[:4]",
    "small": "[2 * x][len(x) // 8]",
}
POSITIVE = "x[x[:, 0] > 0]"


@pytest.fixture(autouse=True)
def numerics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("laptime.tuning.inference.evaluator.numerics_of", lambda recipe: "exact")


@pytest.fixture(scope="module")
def doubling(tmp_path_factory: pytest.TempPathFactory) -> ModelEvaluator:
    return evaluator(tmp_path_factory.mktemp("folders"), FORMULAS)


def gate(model: ModelEvaluator, name: str, batch: int = 4) -> Gate:
    return model.sameness_at(Recipe((Change(name),)), batch)


def test_what_is_right_at_the_chosen_size_passes(doubling: ModelEvaluator) -> None:
    passed = gate(doubling, "right", 8)
    assert passed.word == "passed"
    assert [check.name for check in passed.checks][-1] == "chosen_batch_size"
    assert gate(doubling, "right", 4).checks == passed.checks[:-1]


@pytest.mark.parametrize("name", ["wrong", "baked"])
def test_what_is_wrong_there_alone_is_refused(name: str, doubling: ModelEvaluator) -> None:
    assert gate(doubling, name, 4).word == "passed"
    failed = gate(doubling, name, 8)
    assert failed.word == "failed"
    assert "8 items" in failed.reason


def test_what_takes_no_such_batch_does_not_run(doubling: ModelEvaluator) -> None:
    assert gate(doubling, "small", 4).word == "passed"
    with pytest.raises(TrialFailed, match="of range"):
        gate(doubling, "small", 8)


def test_a_model_of_one_size_takes_no_other(
    doubling: ModelEvaluator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(doubling.surveyed, "varies", [False])
    with pytest.raises(TrialFailed, match="4 items a call, not 2"):
        gate(doubling, "right", 2)


def test_outputs_whose_shapes_depend_on_the_inputs(tmp_path: Path) -> None:
    """As many rows come out as have a positive number in front: 3, 1, 1, 2, 3, 3 and 0 of the calls."""
    formulas = {
        AS_IS: POSITIVE,
        "right": "numpy.array([row for row in x if row[0] > 0]).reshape(-1, 3)",
        "frozen": f"numpy.resize({POSITIVE}, (3, 3))",
        "constant": f"0 * {POSITIVE}",
    }
    model = evaluator(tmp_path, formulas)
    shapes = [call.outputs[0].shape for call in model.recorded.calls]
    assert shapes == [(3, 3), (1, 3), (1, 3), (2, 3), (3, 3), (3, 3), (0, 3)]
    assert (gate(model, "right").word, gate(model, "right", 8).word) == ("passed", "passed")
    for name, check in {"frozen": "held_out_inputs", "constant": "outputs"}.items():
        failed = gate(model, name)
        assert failed.word == "failed"
        assert [each.name for each in failed.checks if each.outcome == "broken"] == [check], failed


def test_two_sessions_at_once_do_not_share_a_folder(doubling: ModelEvaluator, tmp_path: Path) -> None:
    """Both saw that there was no such folder; the second one finds that of the first."""
    recipe, place = Recipe((Change("right"),)), tmp_path / "fast"
    tuning = Tuning(gate=doubling.sameness(recipe))
    folder_file.hand_back(doubling, recipe, place, tuning, run="first")
    with pytest.raises(UsageError, match="be written"):
        folder_file.hand_back(doubling, recipe, place, tuning, run="second")
    assert folder_file.read(place / "recipe.json").run == "first"
    assert list(tmp_path.iterdir()) == [place]
