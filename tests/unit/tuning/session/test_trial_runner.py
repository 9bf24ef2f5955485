"""Trials that are played: what a round is, and what becomes of a trial that fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from laptime.launch.script import Program
from laptime.records.run import Subject
from laptime.records.tuning import Gate, Rung
from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.optimization import Recipe
from laptime.tuning.search.evaluator import Round, TrialFailed
from laptime.tuning.session import diagnosis_record, gating, tuning_record
from laptime.tuning.session.request import TuneRequest, choice_of
from laptime.tuning.session.trial_evaluator import TrialEvaluator
from laptime.tuning.session.trial_pair import TimedTrial, TrialPair, per_sample
from laptime.tuning.session.trial_runner import TrialRunner
from laptime.tuning.trial.messages import Block, TrialPlan, TrialResult
from laptime.tuning.trial.numerics_comparison import NumericsComparison

LAST = Recipe.from_json([{"name": "channels_last"}])
WORKERS = Recipe.from_json([{"name": "num_workers", "options": {"value": 2}}])


class Played:
    """A trial that was played: `blocks` to give, `ended` to tell, `documents` to leave."""

    def __init__(
        self, blocks: list[Block], ended: TrialResult, *, hung: bool, documents: dict[type, Any]
    ) -> None:
        self._blocks, self._ended, self.hung, self._documents = blocks, ended, hung, documents
        self.given = 0

    def blocks(self) -> Iterator[Block]:
        for block in self._blocks:
            self.given += 1
            yield block

    def wait(self) -> None:
        for _ in self.blocks():
            pass

    def finished(self) -> TrialResult:
        return self._ended

    def document(self, kind: type) -> Any:
        return self._documents.get(kind)

    def last_words(self) -> str:
        return "status 1: KeyError: 'x'"


class Scripted(TrialRunner):
    """Plays `steps(plan)` seconds a step in place of processes.

    Attributes:
        plans: what was asked for. fails: a trial's end by the name of a change in its plan.
    """

    def __init__(
        self, folder: Path, fails: dict[str, TrialResult] | None = None, *, hung: bool = False
    ) -> None:
        program = Program(["train.py"], Subject(target="train.py", source="file"), "python")
        super().__init__(program, folder)
        self.plans: list[TrialPlan] = []
        self.trials: list[Played] = []
        self.documents: dict[type, Any] = {}
        self.fails, self.hung = fails or {}, hung

    @contextmanager
    def run(self, plan: TrialPlan) -> Iterator[Any]:
        self.accounting.trials += 1
        self.plans.append(plan)
        names = [change["name"] for arm in (plan.base, *plan.arms) for change in arm]
        failing = next((self.fails[name] for name in names if name in self.fails), None)
        ended = failing or TrialResult(
            ended="stopped", source="optimizer", torch=True, device="cpu", first=2.0, peak=1000
        )
        blocks = [] if failing else list(self._blocks(plan))
        hung = self.hung and failing is not None
        self.trials.append(Played(blocks, ended, hung=hung, documents=self.documents))
        yield self.trials[-1]

    def _blocks(self, plan: TrialPlan) -> Iterator[Block]:
        for number in range(min(plan.rounds, 4)):
            for arm, changes in enumerate(plan.arms):
                slow = 0.05 if changes or plan.base else 0.1
                yield Block(number, arm, [slow] * plan.steps, [1.0] * plan.steps, [4] * plan.steps)


def evaluating(runner: TrialRunner, loop_profile: LoopProfile | None = None) -> TrialEvaluator:
    """An evaluator of a script that was diagnosed."""
    evaluator = TrialEvaluator(runner, choice_of(TuneRequest(program="train.py")))
    evaluator.loop_profile = loop_profile or LoopProfile(step=0.1, batch=4)
    runner.step = evaluator.loop_profile.step
    return evaluator


def seen(runner: Scripted, candidate: Recipe, count: int) -> list[Round]:
    rounds: Any = evaluating(runner).race(Recipe(), candidate)
    found = [next(rounds) for _ in range(count)]
    rounds.close()
    return found


def test_live_changes_race_in_one_process(tmp_path: Path) -> None:
    runner = Scripted(tmp_path)
    found = seen(runner, LAST, 3)
    assert [each.ratio for each in found] == pytest.approx([0.5] * 3)
    assert len(runner.plans) == 1
    assert runner.plans[0].base == []
    assert runner.plans[0].arms == [[], LAST.to_json()]
    assert runner.plans[0].steps == 6  # 0.6 s worth
    assert runner.trials[0].given < 8  # closing ends it
    assert set(runner.accounting.seconds) == {"race", "compile"}


def test_what_both_have_is_the_base_of_a_live_race(tmp_path: Path) -> None:
    runner = Scripted(tmp_path)
    both = Recipe((*WORKERS.changes, *LAST.changes))
    next(evaluating(runner).race(WORKERS, both))
    assert runner.plans[0].base == WORKERS.to_json()
    assert runner.plans[0].arms == [[], LAST.to_json()]


def test_other_changes_race_in_fresh_processes(tmp_path: Path) -> None:
    runner = Scripted(tmp_path)
    found = seen(runner, WORKERS, 3)
    assert [each.ratio for each in found] == pytest.approx([0.5] * 3)
    assert [each.process for each in found] == [0, 1, 2]
    assert [each.memory for each in found] == [1.0] * 3
    assert len(runner.plans) == 6
    assert sorted(len(plan.base) for plan in runner.plans[:2]) == [0, 1]
    assert [plan.seed for plan in runner.plans] == [0, 0, 1, 1, 2, 2]


def test_a_certified_race_flips_nothing(tmp_path: Path) -> None:
    runner = Scripted(tmp_path)
    next(evaluating(runner).race(Recipe(), LAST, fresh=True))
    assert len(runner.plans) == 2


def test_several_ranks_flip_nothing(tmp_path: Path) -> None:
    runner = Scripted(tmp_path)
    runner.newest = TrialResult(world=2)
    next(evaluating(runner).race(Recipe(), LAST))
    assert len(runner.plans) == 2


FAILURES = {
    "crashed": TrialResult(ended="raised", status=1, error="ValueError: no", source="optimizer"),
    "memory": TrialResult(ended="memory", status=1, error="used 9 GB, 8 GB is the limit"),
    "recompiles": TrialResult(ended="recompiles", error="compiles in every step", source="optimizer"),
    "refused": TrialResult(
        ended="stopped", refused=[{"name": "channels_last", "why": "no"}], source="optimizer"
    ),
    "no_steps": TrialResult(ended="returned"),
}


@pytest.mark.parametrize("kind", list(FAILURES))
@pytest.mark.parametrize("fresh", [False, True])
def test_a_trial_that_fails_says_how(tmp_path: Path, kind: str, fresh: bool) -> None:
    runner = Scripted(tmp_path, {"channels_last": FAILURES[kind]})
    with pytest.raises(TrialFailed) as failed:
        list(evaluating(runner).race(Recipe(), LAST, fresh=fresh))
    assert failed.value.kind == kind
    assert failed.value.why


def test_device_memory_and_silence(tmp_path: Path) -> None:
    gone = TrialResult(ended="raised", status=1, error="torch.OutOfMemoryError: CUDA out of memory")
    with pytest.raises(TrialFailed) as failed:
        list(evaluating(Scripted(tmp_path / "a", {"channels_last": gone})).race(Recipe(), LAST))
    assert failed.value.kind == "memory"
    with pytest.raises(TrialFailed) as failed:
        list(
            evaluating(
                Scripted(tmp_path / "b", {"channels_last": TrialResult(ended="died")}, hung=True)
            ).race(Recipe(), LAST)
        )
    assert failed.value.kind == "hung"
    with pytest.raises(TrialFailed, match="KeyError") as failed:
        list(
            evaluating(Scripted(tmp_path / "c", {"channels_last": TrialResult(ended="died", status=1)})).race(
                Recipe(), LAST
            )
        )
    assert failed.value.kind == "crashed"


def test_a_change_that_was_refused_has_no_race_though_there_were_rounds(tmp_path: Path) -> None:
    runner = Scripted(tmp_path)
    refused = TrialResult(
        ended="stopped", source="optimizer", refused=[{"name": "channels_last", "why": "4 dimensions"}]
    )
    rounds: Any = evaluating(runner).race(Recipe(), LAST)
    next(rounds)
    runner.trials[0]._ended = refused
    with pytest.raises(TrialFailed, match="4 dimensions"):
        list(rounds)


def test_compile_time_is_booked_once_under_what_was_tried(tmp_path: Path) -> None:
    compiled = Recipe.from_json([{"name": "compile"}])
    runner = Scripted(tmp_path)
    rounds = evaluating(runner).race(Recipe(), compiled)
    original = runner.timed

    def side(recipe: Recipe, *args: Any, **given: Any) -> TimedTrial:
        found = original(recipe, *args, **given)
        found.result.compile_seconds = 30.0 if len(recipe) else 0.0
        return found

    runner.timed = side  # type: ignore[method-assign]
    next(rounds)
    assert runner.accounting.compiled_by == {"compile": 30.0}
    rung = Rung(name="compile", label="compile", verdict="faster", speedup=1.5, step=0.1)
    told = tuning_record.with_compile_time(rung, runner.accounting)
    assert (told.compile_seconds, told.pays_back) == (30.0, 600)


def test_time_per_sample_is_of_whole_blocks() -> None:
    bursts = Block(0, 0, [0.01, 0.01, 0.97, 0.01], [], [4, 4, 4, 4])
    assert per_sample(bursts) == pytest.approx(1.0 / 16)
    assert per_sample(Block(0, 0, [0.5, 0.5])) == pytest.approx(0.5)
    pair = TrialPair(
        TimedTrial([Block(0, 0, [0.4], [], [4])], TrialResult()),
        TimedTrial([Block(0, 0, [0.4], [], [8])], TrialResult()),
    )
    assert pair.ratio == pytest.approx(0.5)
    assert pair.memory is None


def test_a_diagnosis_is_made_once_and_its_utilisation_told(tmp_path: Path) -> None:
    runner = Scripted(tmp_path)
    evaluator = TrialEvaluator(runner, choice_of(TuneRequest(program="train.py")))
    runner.documents = {LoopProfile: LoopProfile(step=0.02, batch=8, details={"busy": 0.015})}
    found = evaluator.diagnose(LAST)
    assert evaluator.diagnose(LAST) is found
    assert len(runner.plans) == 1
    assert diagnosis_record.utilization(found) == pytest.approx(0.75)
    assert diagnosis_record.diagnosis(LAST, found).utilization == pytest.approx(0.75)
    kept = Rung(name="channels_last", label="channels_last", kept=True)
    assert tuning_record.with_utilization(kept, evaluator).utilization == pytest.approx(0.75)
    other = Rung(name="tf32", label="tf32", kept=True)
    assert tuning_record.with_utilization(other, evaluator).utilization is None
    assert diagnosis_record.utilization(LoopProfile(step=0.1)) is None


def test_without_a_second_diagnosis_the_step_afterwards_is_the_profiled_one(tmp_path: Path) -> None:
    runner = Scripted(tmp_path)
    evaluator = TrialEvaluator(runner, choice_of(TuneRequest(program="train.py")))
    found: Any = SimpleNamespace(recipe=LAST, after=LoopProfile(step=9.0, shares={"data": 9.0}))
    told = diagnosis_record.diagnosis_after(found, evaluator, {"forward": 0.3, "backward": 0.6, "data": 0.1})
    assert told is not None
    assert (told.step, told.bound, told.shares["forward"]) == (pytest.approx(1.0), "compute", 0.3)
    assert told.notes == [diagnosis_record.PROFILED]
    assert told.sentence.startswith("90% of a step of")
    assert diagnosis_record.diagnosis_after(found, evaluator, {}) is None
    assert diagnosis_record.diagnosis_after(found, evaluator, {"kernel": 0.4, "memcpy": 0.1}) is None
    runner.documents = {LoopProfile: LoopProfile(step=0.02, batch=8)}
    diagnosed: Any = SimpleNamespace(recipe=LAST, after=evaluator.diagnose(LAST))
    own = diagnosis_record.diagnosis_after(diagnosed, evaluator, {"forward": 0.3})
    assert own is not None
    assert own.step == pytest.approx(0.02)


# Gates.


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the verdict is asked to look at; it always passes."""
    asked: list[dict[str, Any]] = []

    def judge(classes: set[str], document: Any, **given: Any) -> Gate:
        asked.append({"classes": classes, **given})
        return Gate(word="passed")

    monkeypatch.setattr(gating, "judge", judge)
    return asked


class Capturing(Scripted):
    """Leaves the files that a capture leaves."""

    broken = ""

    @contextmanager
    def run(self, plan: TrialPlan) -> Iterator[Any]:
        name = Path(plan.capture.write or "").stem
        if self.broken and name == self.broken:
            ended = TrialResult(ended="raised", status=1, error="RuntimeError: no double")
            self.plans.append(plan)
            yield Played([], ended, hung=False, documents={})
            return
        if plan.capture.write:
            Path(plan.capture.write).touch()
        self.documents = {NumericsComparison: NumericsComparison(steps=3)}
        with super().run(plan) as running:
            yield running


def order(runner: Scripted) -> list[str]:
    """Which captures were made; data: of the loader alone."""
    return ["data" if plan.capture.samples else Path(plan.capture.write or "").stem for plan in runner.plans]


def test_references_are_made_once(tmp_path: Path, judged: list[dict[str, Any]]) -> None:
    runner = Capturing(tmp_path)
    evaluator = evaluating(runner)
    assert evaluator.gate(Recipe(), LAST, "reassociated").word == "passed"
    assert order(runner) == ["base", "double", "candidate", "again"]
    assert runner.plans[2].base == LAST.to_json()
    assert (runner.plans[2].capture.reference or "").endswith("double.pt")
    assert all(plan.seed == 0 for plan in runner.plans)
    evaluator.gate(Recipe(), LAST, "reassociated")
    assert len(runner.plans) == 4
    evaluator.gate(Recipe(), Recipe.from_json([{"name": "fused_optimizer"}]), "reassociated")
    assert order(runner)[4:] == ["candidate"]
    assert judged[0]["needs_samples"] is False


def test_lower_precision_is_judged_by_what_rounding_does(
    tmp_path: Path, judged: list[dict[str, Any]]
) -> None:
    runner = Capturing(tmp_path)
    evaluator = evaluating(runner)
    evaluator.gate(Recipe(), Recipe.from_json([{"name": "bf16_autocast"}]), "precision")
    assert order(runner) == ["base", "bfloat16", "candidate", "again"]
    assert runner.plans[2].capture.reference is None
    assert runner.plans[1].capture.rounds == "bfloat16"
    evaluator.gate(Recipe(), Recipe.from_json([{"name": "fp16_autocast"}]), "precision")
    assert order(runner)[4:] == ["float16", "candidate"]


def test_changes_of_data_look_at_the_loader_too(tmp_path: Path, judged: list[dict[str, Any]]) -> None:
    runner = Capturing(tmp_path)
    evaluator = evaluating(runner)
    evaluator.gate(Recipe(), WORKERS, "exact")
    assert (
        order(runner) == ["base", "candidate", "again", "data", "data", "data"]
        or order(runner).count("data") == len(runner.plans) - 3
    )
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
    assert order(runner) == ["base", "double", "candidate", "again"]
    assert runner.plans[2].capture.reference is None
    evaluator.gate(Recipe(), Recipe.from_json([{"name": "fused_optimizer"}]), "reassociated")
    assert order(runner)[4:] == ["candidate"]  # not tried again


def test_a_candidate_that_breaks_has_no_gate(tmp_path: Path, judged: list[dict[str, Any]]) -> None:
    runner = Capturing(tmp_path)
    evaluator = evaluating(runner)
    runner.broken = "candidate"
    with pytest.raises(TrialFailed) as failed:
        evaluator.gate(Recipe(), LAST, "reassociated")
    assert failed.value.kind == "crashed"
    assert judged == []


def test_compiling_inside_a_block_is_no_time_of_its_steps() -> None:
    """The ragged batch at the end of an epoch has another shape: one step of four holds 12 s of compiling."""
    block = Block(round=0, arm=0, seconds=[0.01, 12.01, 0.01, 0.01], samples=[4, 2, 4, 4], compiling=12.0)
    assert per_sample(block) == pytest.approx(0.04 / 14)
    assert per_sample(replace(block, compiling=13.0)) > 0
