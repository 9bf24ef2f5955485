"""Gates by trials that are played: which captures are made, and how often."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fixtures.played_trials import LAST, WORKERS, PlayedRunner, PlayedTrial, evaluating
from laptime.records.tuning import Gate, GateWord
from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.optimization import Recipe
from laptime.tuning.script import gate_runner
from laptime.tuning.search.evaluator import TrialFailed
from laptime.tuning.trial.messages import NumericsComparison, TrialPlan, TrialResult


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the verdict is asked to look at; it always passes."""
    asked: list[dict[str, Any]] = []

    def judge(classes: set[str], document: Any, **given: Any) -> Gate:
        asked.append({"classes": classes, **given})
        return Gate(word="passed")

    monkeypatch.setattr(gate_runner, "judge", judge)
    return asked


class Capturing(PlayedRunner):
    """Leaves the files that a capture leaves."""

    broken = ""

    @contextmanager
    def run(self, plan: TrialPlan) -> Iterator[Any]:
        if self.broken and capture_of(plan) == self.broken:
            ended = TrialResult(ended="raised", status=1, error="RuntimeError: no double")
            self.plans.append(plan)
            yield PlayedTrial([], ended, hung=False, documents={})
            return
        if plan.capture.write:
            Path(plan.capture.write).touch()
        self.documents = {NumericsComparison: NumericsComparison(steps=3)}
        with super().run(plan) as running:
            yield running


def capture_of(plan: TrialPlan) -> str:
    """Which capture a trial makes; data: of the loader alone."""
    made = plan.capture
    if made.samples:
        return "data"
    return Path(made.write or "").stem or made.rounds or ("candidate" if plan.base else "again")


def order(runner: PlayedRunner) -> list[str]:
    """Which captures were made."""
    return [capture_of(plan) for plan in runner.plans]


def test_references_are_made_once(tmp_path: Path, judged: list[dict[str, Any]]) -> None:
    runner = Capturing(tmp_path)
    evaluator = evaluating(runner)
    assert evaluator.gate(Recipe(), LAST, "reassociated").word == "passed"
    assert order(runner) == ["base", "double", "candidate"]
    assert [bool(plan.capture.write) for plan in runner.plans] == [True, True, False]  # nobody reads it
    assert runner.plans[2].base == LAST.to_json()
    assert (runner.plans[2].capture.reference or "").endswith("double.pt")
    assert all(plan.seed == 0 for plan in runner.plans)
    evaluator.gate(Recipe(), LAST, "reassociated")
    assert len(runner.plans) == 3
    evaluator.gate(Recipe(), Recipe.from_json([{"name": "fused_optimizer"}]), "reassociated")
    assert order(runner)[3:] == ["candidate"]
    assert judged[0]["needs_samples"] is False


@pytest.mark.parametrize("first", ["failed", "undecided"])
def test_the_script_runs_again_only_for_a_gate_that_has_not_passed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: GateWord
) -> None:
    def judge(classes: set[str], document: Any, **given: Any) -> Gate:
        return Gate(word="passed" if given.get("again") and given.get("samples_again") else first)

    monkeypatch.setattr(gate_runner, "judge", judge)
    runner = Capturing(tmp_path)
    assert evaluating(runner).gate(Recipe(), WORKERS, "exact").word == "passed"
    assert order(runner) == ["base", "candidate", "data", "data", "data", "again"]


def test_lower_precision_is_judged_by_what_rounding_does(
    tmp_path: Path, judged: list[dict[str, Any]]
) -> None:
    runner = Capturing(tmp_path)
    evaluator = evaluating(runner)
    evaluator.gate(Recipe(), Recipe.from_json([{"name": "bf16_autocast"}]), "precision")
    assert order(runner) == ["base", "bfloat16", "candidate"]
    assert runner.plans[2].capture.reference is None
    assert runner.plans[1].capture.rounds == "bfloat16"
    evaluator.gate(Recipe(), Recipe.from_json([{"name": "fp16_autocast"}]), "precision")
    assert order(runner)[3:] == ["float16", "candidate"]


def test_lower_precision_fails_only_after_all_draws_of_rounding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def judge(classes: set[str], document: Any, **given: Any) -> Gate:
        return Gate(word="passed" if len(given["rounded"]) == gate_runner.DRAWS else "failed")

    monkeypatch.setattr(gate_runner, "judge", judge)
    runner = Capturing(tmp_path)
    evaluator = evaluating(runner)
    bf16 = Recipe.from_json([{"name": "bf16_autocast"}])
    assert evaluator.gate(Recipe(), bf16, "precision").word == "passed"
    assert order(runner) == ["base", "bfloat16", "candidate", "again", "bfloat16", "bfloat16"]
    assert [plan.capture.draw for plan in runner.plans if plan.capture.rounds] == [0, 1, 2]


def test_another_order_fails_only_after_all_draws_of_last_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passing = 1

    def judge(classes: set[str], document: Any, **given: Any) -> Gate:
        word: GateWord = "passed" if len(given.get("perturbed", ())) >= passing else "failed"
        return Gate(word=word, numerics="reassociated")

    monkeypatch.setattr(gate_runner, "judge", judge)
    runner = Capturing(tmp_path)
    evaluator = evaluating(runner)
    assert evaluator.gate(Recipe(), LAST, "reassociated").word == "passed"
    assert order(runner) == ["base", "double", "candidate", "again", "last_bits"]
    passing = gate_runner.DRAWS
    fused = Recipe.from_json([{"name": "fused_optimizer"}])
    assert evaluator.gate(Recipe(), fused, "reassociated").word == "passed"
    assert order(runner)[5:] == ["candidate", "last_bits", "last_bits"]
    assert [plan.capture.draw for plan in runner.plans if plan.capture.rounds] == [0, 1, 2]


def test_changes_of_data_look_at_the_loader_too(tmp_path: Path, judged: list[dict[str, Any]]) -> None:
    runner = Capturing(tmp_path)
    evaluator = evaluating(runner)
    evaluator.gate(Recipe(), WORKERS, "exact")
    assert order(runner) == ["base", "candidate", "data", "data"]
    assert judged[0]["needs_samples"] is True


def test_batches_of_slow_steps_are_cut(tmp_path: Path, judged: list[dict[str, Any]]) -> None:
    runner = Capturing(tmp_path)
    evaluator = evaluating(runner, LoopProfile(step=2.0, batch=32))
    evaluator.gate(Recipe(), LAST, "reassociated")
    assert {plan.capture.most for plan in runner.plans} == {8}
    assert {plan.capture.steps for plan in runner.plans} == {2}
    quick = Capturing(tmp_path / "quick")
    quick.folder.mkdir()
    evaluating(quick).gate(Recipe(), LAST, "reassociated")
    assert all(plan.capture.most is None for plan in quick.plans)


def test_a_script_that_has_no_double_precision_is_judged_without(
    tmp_path: Path, judged: list[dict[str, Any]]
) -> None:
    runner = Capturing(tmp_path)
    evaluator = evaluating(runner)
    runner.broken = "double"
    evaluator.gate(Recipe(), LAST, "reassociated")
    assert order(runner) == ["base", "double", "candidate"]
    assert runner.plans[2].capture.reference is None
    evaluator.gate(Recipe(), Recipe.from_json([{"name": "fused_optimizer"}]), "reassociated")
    assert order(runner)[3:] == ["candidate"]  # not tried again


def test_a_candidate_that_breaks_has_no_gate(tmp_path: Path, judged: list[dict[str, Any]]) -> None:
    runner = Capturing(tmp_path)
    evaluator = evaluating(runner)
    runner.broken = "candidate"
    with pytest.raises(TrialFailed) as failed:
        evaluator.gate(Recipe(), LAST, "reassociated")
    assert failed.value.kind == "crashed"
    assert judged == []


@pytest.mark.parametrize(("name", "draws"), [("compile", [False, True]), ("channels_last", [False])])
def test_compiled_code_that_fails_is_asked_with_eager_draws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, draws: list[bool]
) -> None:
    """Its dropout has other masks: what can be compared is a step under the same ones."""
    runner = Capturing(tmp_path)

    def judge(classes: set[str], document: Any, **given: Any) -> Gate:
        return Gate(word="passed" if runner.plans[-1].capture.eager_draws else "failed")

    monkeypatch.setattr(gate_runner, "judge", judge)
    gate = evaluating(runner).gate(Recipe(), Recipe.from_json([{"name": name}]), "reassociated")
    captures = [plan.capture.eager_draws for plan in runner.plans if capture_of(plan) == "candidate"]
    assert captures == draws
    assert gate.word == ("passed" if draws[-1] else "failed")
