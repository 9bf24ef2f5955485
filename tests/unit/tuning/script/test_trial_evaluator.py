"""Races by trials that are played: what a round is, and what becomes of a trial that fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fixtures.played_trials import LAST, WORKERS, PlayedRunner, evaluating
from laptime.experiment import turns
from laptime.records.tuning import Rung
from laptime.tuning.optimization import Recipe
from laptime.tuning.script.records import with_compile_time
from laptime.tuning.script.request import TuneRequest, choice_of
from laptime.tuning.script.trial_evaluator import TrialEvaluator
from laptime.tuning.search.evaluator import Round, TrialFailed
from laptime.tuning.trial.messages import TrialPlan, TrialResult


def seen(runner: PlayedRunner, candidate: Recipe, count: int) -> list[Round]:
    rounds: Any = evaluating(runner).race(Recipe(), candidate)
    found = [next(rounds) for _ in range(count)]
    rounds.close()
    return found


def test_live_changes_race_in_one_process(tmp_path: Path) -> None:
    runner = PlayedRunner(tmp_path)
    found = seen(runner, LAST, 3)
    assert [each.ratio for each in found] == pytest.approx([0.5] * 3)
    assert len(runner.plans) == 1
    assert runner.plans[0].base == []
    assert runner.plans[0].arms == [[], LAST.to_json()]
    assert runner.plans[0].steps == 6  # 0.6 s worth
    assert runner.trials[0].blocks_taken < 8  # closing ends it
    assert set(runner.accounting.seconds) == {"race"}


def test_what_both_have_is_the_base_of_a_live_race(tmp_path: Path) -> None:
    runner = PlayedRunner(tmp_path)
    both = Recipe((*WORKERS.changes, *LAST.changes))
    next(evaluating(runner).race(WORKERS, both))
    assert runner.plans[0].base == WORKERS.to_json()
    assert runner.plans[0].arms == [[], LAST.to_json()]


@pytest.mark.parametrize(("of_a_start", "processes"), [(0, [0, 0, 0, 1]), (100, [0, 0, 0, 0])])
def test_other_changes_take_turns_in_pairs_of_processes(
    of_a_start: int, processes: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice as many rounds where a start takes longer than they do."""
    runner, clock = PlayedRunner(tmp_path), [0.0]

    @contextmanager
    def alive(sides: Any, dice: Any) -> Iterator[None]:
        with turns.alive(sides, dice):
            clock[0] += of_a_start
            yield

    def elapsed() -> float:
        clock[0] += 1
        return clock[0]

    monkeypatch.setattr("laptime.tuning.script.trial_evaluator.alive", alive)
    monkeypatch.setattr(runner, "elapsed", elapsed)
    found = seen(runner, WORKERS, len(processes))
    assert [each.ratio for each in found] == pytest.approx([0.5] * len(processes))
    assert [each.process for each in found] == processes
    plans = runner.plans[: 2 * len({*processes})]
    assert all(plan.turns and plan.memory <= runner.memory // 2 for plan in plans)
    assert sorted(len(plan.base) for plan in runner.plans[:2]) == [0, 1]
    assert [plan.seed for plan in plans] == [0, 0, 1, 1][: len(plans)]
    assert set(runner.accounting.seconds) == {"race"}


def test_sides_that_do_not_run_at_once_run_one_after_the_other(tmp_path: Path) -> None:
    class Crowded(PlayedRunner):
        """Runs nothing in half of the memory."""

        @contextmanager
        def run(self, plan: TrialPlan) -> Iterator[Any]:
            with super().run(plan) as trial:
                if plan.turns:
                    trial._blocks, trial.result = [], FAILURES["memory"]
                yield trial

    runner = Crowded(tmp_path)
    evaluator = evaluating(runner)
    rounds: Any = evaluator.race(Recipe(), WORKERS)
    found = [next(rounds) for _ in range(2)]
    assert [each.process for each in found] == [0, 1]
    assert [each.memory for each in found] == [1.0] * 2
    tried = len(runner.plans)
    next(evaluator.race(Recipe(), WORKERS))
    assert len(runner.plans) == tried + 2, "it is tried at once no more"


def test_peaks_are_those_of_processes_that_ran_one_after_the_other(tmp_path: Path) -> None:
    evaluator = evaluating(PlayedRunner(tmp_path))
    evaluator.choice = choice_of(TuneRequest(program="train.py", goal="memory"))
    rounds: Any = evaluator.race(Recipe(), WORKERS)
    found = [next(rounds) for _ in range(2)]
    assert [each.memory for each in found] == [1.0] * 2
    assert [each.process for each in found] == [0, 1]


def test_a_certified_race_flips_nothing(tmp_path: Path) -> None:
    runner = PlayedRunner(tmp_path)
    next(evaluating(runner).race(Recipe(), LAST, fresh=True))
    assert len(runner.plans) == 2


def test_several_ranks_flip_nothing(tmp_path: Path) -> None:
    runner = PlayedRunner(tmp_path)
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
    runner = PlayedRunner(tmp_path, {"channels_last": FAILURES[kind]})
    with pytest.raises(TrialFailed) as failed:
        list(evaluating(runner).race(Recipe(), LAST, fresh=fresh))
    assert failed.value.kind == kind
    assert failed.value.why


@pytest.mark.parametrize("blocks", [0, 1, 2])
def test_a_script_that_ends_while_changes_are_switched_races_in_processes(
    tmp_path: Path, blocks: int
) -> None:
    class Stumbling(PlayedRunner):
        """Dies of what the other side left behind: hidden states of two precisions, say."""

        @contextmanager
        def run(self, plan: TrialPlan) -> Iterator[Any]:
            with super().run(plan) as trial:
                if len(plan.arms) == 2:
                    trial._blocks, trial.result = trial._blocks[:blocks], FAILURES["crashed"]
                yield trial

    runner = Stumbling(tmp_path)
    found = seen(runner, LAST, 3)
    assert [each.ratio for each in found] == pytest.approx([0.5] * 3)
    assert [each.process for each in found] == ([0, 1, 1] if blocks == 2 else [1, 1, 1])


def test_each_trial_begins_with_what_the_user_has(tmp_path: Path) -> None:
    """A checkpoint that one trial wrote would be resumed by the next; a folder of outputs exists already."""
    runner = PlayedRunner(tmp_path)
    seen(runner, WORKERS, 2)
    places = {plan.scratch for plan in runner.plans}
    assert len(places) == len(runner.plans)
    assert all(plan.scratch.startswith(plan.folder) for plan in runner.plans)


@pytest.mark.parametrize(("budget", "seconds"), [(3600.0, 20.0), (120.0, 10.0)])
def test_a_diagnosis_takes_its_share_of_the_budget(tmp_path: Path, budget: float, seconds: float) -> None:
    runner = PlayedRunner(tmp_path)
    evaluator = TrialEvaluator(runner, choice_of(TuneRequest(program="train.py")), budget)
    with pytest.raises(TrialFailed):  # nothing is diagnosed by what is played
        evaluator.diagnose(Recipe())
    assert runner.plans[0].seconds == seconds


def test_device_memory_and_silence(tmp_path: Path) -> None:
    gone = TrialResult(ended="raised", status=1, error="torch.OutOfMemoryError: CUDA out of memory")
    with pytest.raises(TrialFailed) as failed:
        list(evaluating(PlayedRunner(tmp_path / "a", {"channels_last": gone})).race(Recipe(), LAST))
    assert failed.value.kind == "memory"
    with pytest.raises(TrialFailed) as failed:
        list(
            evaluating(
                PlayedRunner(tmp_path / "b", {"channels_last": TrialResult(ended="died")}, hung=True)
            ).race(Recipe(), LAST)
        )
    assert failed.value.kind == "hung"
    with pytest.raises(TrialFailed, match="KeyError") as failed:
        list(
            evaluating(
                PlayedRunner(tmp_path / "c", {"channels_last": TrialResult(ended="died", status=1)})
            ).race(Recipe(), LAST)
        )
    assert failed.value.kind == "crashed"


def test_a_change_that_was_refused_has_no_race_though_there_were_rounds(tmp_path: Path) -> None:
    runner = PlayedRunner(tmp_path)
    refused = TrialResult(
        ended="stopped", source="optimizer", refused=[{"name": "channels_last", "why": "4 dimensions"}]
    )
    rounds: Any = evaluating(runner).race(Recipe(), LAST)
    next(rounds)
    runner.trials[0].result = refused
    with pytest.raises(TrialFailed, match="4 dimensions"):
        list(rounds)


def test_compile_time_is_booked_once_and_not_under_what_was_raced_beside_it(tmp_path: Path) -> None:
    compiled = Recipe.from_json([{"name": "allocator"}, {"name": "compile"}])
    runner = PlayedRunner(tmp_path)
    rounds: Any = evaluating(runner).race(Recipe(), compiled)
    next(rounds)
    (final,) = (trial for trial, plan in zip(runner.trials, runner.plans, strict=True) if plan.base)
    final.result.compile_seconds = 30.0
    rounds.close()
    assert runner.accounting.compiled_by == {"compile": 30.0}
    rung = Rung(name="compile", label="compile", verdict="faster", speedup=1.5, step=0.1)
    told = with_compile_time(rung, runner.accounting)
    assert (told.compile_seconds, told.pays_back) == (30.0, 600)
