"""Samples and a metric of the user's: what is refused, and how scores are judged."""

from __future__ import annotations

import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from laptime.kit.errors import TargetError, UsageError, UserCodeError
from laptime.measure.recorded_calls import RecordedCall, RecordedCalls
from laptime.tuning.inference import request, sameness, samples, survey
from laptime.tuning.inference.evaluator import ModelEvaluator
from laptime.tuning.inference.request import ModelRequest

DATA = """
import numpy as np

def alone():
    for at in range(5000):
        yield np.full((2, 3), at, "float32")

def pairs():
    return [(np.zeros((2, 3), "float32"), np.zeros(2, "int64"))] * 2

def named():
    yield {"x": np.zeros((2, 3), "float32"), "scale": np.ones(2, "float32")}

def uneven():
    yield np.zeros((2, 3), "float32")
    yield np.zeros((2, 3), "float64")

def texts():
    yield "a text"

def nothing():
    return []

def one():
    return np.zeros((2, 3), "float32")

def broken():
    yield np.zeros((2, 3), "float32")
    raise OSError("the disk is gone")
"""


@pytest.fixture
def data(tmp_path: Path) -> str:
    (tmp_path / "data.py").write_text(DATA)
    return f"{tmp_path}/data.py"


def test_samples_are_drawn_as_a_call_takes_them(data: str) -> None:
    drawn = list(samples.draw(f"{data}:alone"))
    assert len(drawn) == samples.MOST
    assert (drawn[7].names, float(drawn[7].arrays[0][0, 0])) == ((), 7.0)
    assert [len(each.arrays) for each in samples.draw(f"{data}:pairs")] == [2, 2]
    (named,) = samples.draw(f"{data}:named")
    assert named.names == ("x", "scale")
    assert [array.ndim for array in named.reorder(["scale", "x"]).arrays] == [1, 2]
    with pytest.raises(TargetError, match="x, scale"):
        named.reorder(["scale", "y"])


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("uneven", "sample 1 is float64"),
        ("texts", "not made of tensors"),
        ("nothing", "gave no sample"),
        ("one", "not a list or generator"),
    ],
)
def test_what_is_no_sample_is_refused(data: str, name: str, why: str) -> None:
    with pytest.raises(TargetError) as refused:
        list(samples.draw(f"{data}:{name}"))
    assert why in refused.value.why


def test_an_error_of_the_function_is_told_with_its_line(data: str) -> None:
    with pytest.raises(UserCodeError) as told:
        list(samples.draw(f"{data}:broken"))
    assert "gone (data.py:" in told.value.why


def test_options_that_contradict_each_other_are_refused_before_anything_runs(data: str) -> None:
    target = "null:"
    for options, what in (
        ({"inputs": f"{data}:alone", "batch": 4}, "--batch and --inputs"),
        ({"metric": f"{data}:alone"}, "--metric needs --inputs"),
        ({"inputs": "alone"}, "names no function"),
        ({"inputs": f"{data}:alnoe"}, "alnoe"),
    ):
        with pytest.raises(UsageError, match=what):
            request.check_functions(ModelRequest(target=target, **options))


def scores(right: float, n: int, seed: int) -> list[float]:
    generator = random.Random(seed)
    return [float(generator.random() < right) for _ in range(n)]


def test_equal_scores_pass_and_lost_ones_fail() -> None:
    before = scores(0.8, 400, seed=0)
    assert sameness.as_good(before, before).outcome == "kept"
    flipped = [0.0 if at % 10 == 0 else score for at, score in enumerate(before)]
    assert sameness.as_good(before, flipped).outcome == "broken"
    assert sameness.as_good(before, flipped[:-1]).outcome == "broken"
    assert sameness.as_good([0.8], [0.795]).outcome == "kept"
    assert sameness.as_good([0.8], [0.7]).outcome == "broken"


def test_few_scores_decide_nothing_where_some_differ() -> None:
    before = scores(0.8, 20, seed=1)
    after = [1 - score if at == 3 else score for at, score in enumerate(before)]
    check = sameness.as_good(before, after)
    assert check.outcome == "undecided"
    assert "more samples" in check.sentence


def test_a_loss_of_twice_the_margin_passes_in_at_most_5_of_100() -> None:
    passed = 0
    for seed in range(300):
        generator = np.random.default_rng(seed)
        before = generator.normal(1.0, 0.3, 500)
        after = before - 2 * sameness.MARGIN + generator.normal(0.0, 0.1, 500)
        passed += sameness.as_good(list(before), list(after)).outcome == "kept"
    assert passed <= 15


def test_scores_come_from_outputs_as_the_model_gives_them(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "eval.py").write_text(
        "def right(outputs):\n    return [float(each['scores'].sum()) for each in outputs]\n"
        "def words(outputs):\n    return 'good'\n"
    )
    np.savez(tmp_path / "outputs.npz", **{f"{at}_0": np.full(3, at, "float32") for at in range(4)})  # type: ignore[arg-type]
    arguments = {"outputs": str(tmp_path / "outputs.npz"), "counts": [1] * 4, "structure": ["scores"]}
    right = sameness.scores(function=f"{tmp_path}/eval.py:right", **arguments)  # type: ignore[arg-type]
    assert right == [0.0, 3.0, 6.0, 9.0]
    with pytest.raises(TargetError, match="no scores"):
        sameness.scores(function=f"{tmp_path}/eval.py:words", **arguments)  # type: ignore[arg-type]


def test_a_sample_that_holds_nan_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "data.py"
    file.write_text(
        "import numpy as np\ndef samples():\n    yield np.ones(3)\n    yield np.full(3, np.nan)\n"
    )
    with pytest.raises(TargetError, match="no inputs") as refused:
        list(samples.draw(f"{file}:samples"))
    assert "sample 1" in refused.value.why


def test_something_is_held_out_where_there_is_one_sample(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "model.py").write_text(
        "import torch\ndef build():\n    return torch.nn.Linear(3, 2), torch.ones(4, 3)\n"
    )
    (tmp_path / "data.py").write_text("import torch\ndef samples():\n    yield torch.randn(4, 3)\n")
    paths = {name: str(tmp_path / f"{name}.npz") for name in ("calls", "calibration")}
    surveyed = survey.survey(
        target=f"{tmp_path}/model.py:build", batch=0, samples=f"{tmp_path}/data.py:samples", **paths
    )
    calls = RecordedCalls.load(Path(paths["calls"])).calls
    assert (surveyed["samples"], [call.batch for call in calls]) == (1, [4, 4, 1, 5, 4, 4, 4, 4])
    assert len({call.inputs[0].tobytes() for call in calls[:3]}) == 3
    assert len(RecordedCalls.load(Path(paths["calibration"])).calls) == 1


def test_a_metric_that_raises_on_tuned_outputs_fails_its_check(tmp_path: Path) -> None:
    answers: list[Any] = [[1.0, 1.0], UserCodeError("eval.py:accuracy failed", why="ValueError: NaN")]

    def call(*_: object) -> list[float]:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return list(answer)

    recorded = RecordedCalls([RecordedCall(1, [np.ones(1)], [np.ones(1)])] * 3)
    given = recorded, {"samples": 2, "outputs": None}, tmp_path, call
    made = sameness.UserMetric("eval.py:accuracy", *given)
    (check,) = made.checks(tmp_path / "o.npz", [1, 1, 1])
    assert (check.outcome, check.sentence) == ("broken", "eval.py:accuracy failed: ValueError: NaN")
    (check,) = made.checks(tmp_path / "o.npz", [1, "RuntimeError", 1])
    assert check.outcome == "undecided"
    assert (
        sameness.UserMetric("", recorded, {"samples": 2, "outputs": None}, tmp_path, call).checks(
            tmp_path, []
        )
        == []
    )


@pytest.mark.slow
def test_a_metric_that_raises_is_told_before_anything_is_raced(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "model.py").write_text(
        "import torch\ndef build():\n    return torch.nn.Linear(3, 2), torch.ones(4, 3)\n"
        "def samples():\n    return [torch.randn(4, 3) for _ in range(3)]\n"
        "def accuracy(outputs):\n    raise KeyError('labels')\n"
    )
    names = {"target": "build", "inputs": "samples", "metric": "accuracy"}
    given: dict[str, Any] = {option: f"{tmp_path}/model.py:{name}" for option, name in names.items()}
    with pytest.raises(UserCodeError) as told:
        ModelEvaluator(ModelRequest(**given), tmp_path)
    assert "labels" in told.value.why


def test_lengths_that_the_model_takes_are_open_and_others_are_not() -> None:
    table = np.arange(24.0)

    def run(given: list[Any]) -> list[Any]:
        tokens, mask, weights = given
        return [(tokens * mask).sum(1) + weights @ table[:5]]

    reference: Any = SimpleNamespace(run=run, batch=2, varies=[True, True, True])
    inputs = [np.ones((2, 7), int), np.ones((2, 7)), np.ones((2, 5))]
    names, others = survey._lengths(reference, [inputs])
    assert names == [["", "n7"], ["", "n7"], ["", ""]]
    shapes = [[each.shape for each in call.inputs] for call in others]
    assert shapes == [[(2, size), (2, size), (2, 5)] for size in (6, 8)]
    longer = [np.ones((2, 9), int), np.ones((2, 9)), np.ones((2, 5))]
    assert survey._lengths(reference, [inputs, longer])[0][0] == ["", "n7_9"]


def test_a_mask_of_four_dimensions_has_the_length_of_what_it_masks() -> None:
    def run(given: list[Any]) -> list[Any]:
        return [(given[0][:, None, None] * given[1]).sum(-1)]

    reference: Any = SimpleNamespace(run=run, batch=2, varies=[True, True])
    masked = survey._lengths(reference, [[np.ones((2, 7)), np.ones((2, 1, 7, 7), bool)]])[0]
    assert masked == [["", "n7"], ["", "", "n7", "n7"]]
    assert survey._lengths(reference, [[np.ones((2, 1, 7, 7)), np.ones((2, 1, 7, 7))]])[0][0] == [""] * 4


def test_tables_side_by_side_are_found_by_column_and_sizes_that_nothing_tells(monkeypatch: Any) -> None:
    sizes = np.array([23, 5, 90])

    def run(given: list[Any]) -> list[Any]:
        if (given[0] >= sizes).any():
            raise IndexError
        return [given[0].sum(1)]

    given = [np.zeros((4, 3), np.int64)]
    (columns, most), *_ = survey._tables(run, given, {128, 90})
    assert (columns.tolist(), most) == ([23, 5, 90], 5)
    monkeypatch.setattr(survey, "PATIENCE", -1.0)
    (columns, most), *_ = survey._tables(run, given, {128, 90})
    assert (columns.tolist(), most) == ([1, 1, 1], 1)  # no time: what the first call holds


def test_only_whole_numbers_that_are_refused_beyond_tables_are_places_in_them() -> None:
    table = np.arange(30.0)

    def run(given: list[Any]) -> list[Any]:
        tokens, mask, weights = given
        return [(table[tokens] * mask).sum(1) + weights.sum()]

    given = [np.zeros((2, 7), int), np.ones((2, 7), int), np.ones(5)]
    (columns, most), mask, _ = survey._tables(run, given, {40, 8})
    assert (columns.tolist(), most, mask) == ([30] * 7, 30, [])
    assert not given[1].max() > 1
    assert survey._tables(run, given, set())[:2] == [[], []]
