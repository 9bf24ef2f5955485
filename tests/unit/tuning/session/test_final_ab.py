"""The gain measured afresh: pure parts on made-up pairs, and how many pairs are worth their time."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from laptime.tuning.optimization import Recipe
from laptime.tuning.session import final_ab
from laptime.tuning.session.trial_runner import TimedTrial, TrialPair
from laptime.tuning.trial.messages import Block, TrialResult


def side(
    step: float, *, samples: int = 4, losses: list[float] | None = None, peak: int | None = None
) -> TimedTrial:
    block = Block(0, 0, [step] * 5, losses or [], [samples] * 5)
    return TimedTrial([block], TrialResult(ended="stopped", peak=peak))


def pairs(ratio: float, count: int, scatter: float = 0.002) -> list[TrialPair]:
    rng = random.Random(1)
    return [TrialPair(side(1.0), side(ratio * math.exp(rng.gauss(0, scatter)))) for _ in range(count)]


def test_the_word_and_the_interval() -> None:
    found = final_ab.speedup(pairs(0.5, 5), 0.002)
    assert found is not None
    assert found.word == "faster"
    assert found.value == pytest.approx(2.0, rel=0.01)
    assert found.ci95[0] < 2.0 < found.ci95[1]
    assert found.pairs == len(found.ratios) == 5
    slower = final_ab.speedup(pairs(1.2, 5), 0.002)
    same = final_ab.speedup(pairs(1.0, 7, 0.0005), 0.0005)
    wide = final_ab.speedup(pairs(1.0, 3, 0.1), 0.1)
    assert [each and each.word for each in (slower, same, wide)] == ["slower", "same", "unclear"]


def test_one_pair_says_nothing() -> None:
    assert final_ab.speedup(pairs(0.5, 1), 0.002) is None
    assert final_ab.effect([], 0.002) is None


def test_a_side_is_the_median_of_its_processes() -> None:
    found = final_ab.measured([side(0.1), side(0.2, peak=5), side(0.4, peak=7)], 0.01)
    assert found.step == pytest.approx(0.2)
    assert found.throughput == pytest.approx(4 / 0.2)
    assert (found.processes, found.steps, found.peak) == (3, 15, 7)
    assert found.ci95 is not None
    assert found.ci95[0] < 0.2 < found.ci95[1]
    assert final_ab.measured([side(0.1)], 0.01).ci95 is None


def test_a_larger_batch_is_compared_by_sample() -> None:
    found = TrialPair(side(1.0, samples=4), side(1.5, samples=8))
    assert found.ratio == pytest.approx(0.75)


def test_losses_side_by_side() -> None:
    def lost(last: float) -> list[TrialPair]:
        return [
            TrialPair(side(1, losses=[2.0, 1.0 + seed / 100]), side(1, losses=[2.0, last + seed / 100]))
            for seed in range(3)
        ]

    assert final_ab.convergence_of(lost(1.0), "exact").word == "none"
    assert final_ab.convergence_of([], "precision").word == "none"
    short = final_ab.convergence_of(lost(1.0), "precision")
    assert (short.word, short.smoke_test) == ("inconclusive", True)
    broken = [TrialPair(side(1, losses=[1.0] * 30), side(1, losses=[math.nan] * 30)) for _ in range(3)]
    assert final_ab.convergence_of(broken, "precision").word == "fails"


def test_losses_of_the_patched_script() -> None:
    one = [TrialPair(side(1), side(1, losses=[2.0, 1.0]))]
    assert final_ab.same_losses(one, [side(1, losses=[2.0, 1.0005])]) is True
    assert final_ab.same_losses(one, [side(1, losses=[2.0, 1.1])]) is False
    assert final_ab.same_losses(one, [side(1)]) is None


class Clock:
    """A runner whose pairs take `each` seconds and come out as they were made up."""

    def __init__(self, made: list[TrialPair], each: float) -> None:
        self._made, self._each, self._now = iter(made), each, 0.0
        self.asked: list[dict[str, Any]] = []

    def elapsed(self) -> float:
        return self._now

    def pair(self, baseline: Recipe, final: Recipe, number: int, **given: Any) -> TrialPair:
        self.asked.append({"number": number, **given})
        self._now += self._each
        return next(self._made)


def taken(
    made: list[TrialPair], *, each: float, until: float, end: float = 1000.0, expected: float = 0.0
) -> int:
    runner: Any = Clock(made, each)
    given = {"until": until, "end": end, "budget": end, "noise": 0.01, "expected": expected}
    for _ in final_ab.pairs(runner, Recipe(), **given):
        pass
    assert [one["number"] for one in runner.asked] == list(range(len(runner.asked)))
    return len(runner.asked)


def test_pairs_until_it_is_narrow_or_the_time_is_up() -> None:
    assert taken(pairs(0.5, 9, 0.0001), each=10, until=1000) < final_ab.MOST
    assert taken(pairs(0.5, 9, 0.1), each=10, until=1000) == final_ab.MOST
    assert taken(pairs(0.5, 9, 0.1), each=10, until=0) == final_ab.FEWEST
    assert taken(pairs(0.5, 9, 0.1), each=10, until=50) == 5


def test_no_pair_is_begun_that_ends_beyond_the_budget() -> None:
    wide = pairs(0.5, 9, 0.1)
    assert taken(wide, each=10, until=0, end=25, expected=10) == final_ab.LEAST
    assert taken(wide, each=10, until=0, end=35, expected=10) == final_ab.FEWEST


def test_one_pair_alone_is_not_begun() -> None:
    assert taken(pairs(0.5, 9, 0.1), each=10, until=0, end=15, expected=10) == 0
    # Nothing is known of a pair before one was measured but what is expected of it.
    assert taken(pairs(0.5, 9, 0.1), each=10, until=0, end=15, expected=5) == 1
