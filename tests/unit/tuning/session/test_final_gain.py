"""The gain measured again: pure parts on made-up pairs, and how many pairs are worth their time."""

from __future__ import annotations

import math
import random
from statistics import geometric_mean, median
from typing import Any

import pytest

from laptime.experiment import pairs as engine
from laptime.experiment.pairs import Pair
from laptime.experiment.turns import Turns
from laptime.records.tuning import Measured, Speedup
from laptime.tuning.script.final_set import convergence_of, same_losses
from laptime.tuning.script.fresh_pairs import make_visited, pair_of
from laptime.tuning.script.trial_runner import TimedTrial, TrialPair
from laptime.tuning.session import final_gain
from laptime.tuning.trial.messages import Block, TrialResult


def side(
    step: float, *, samples: int = 4, losses: list[float] | None = None, peak: int | None = None
) -> TimedTrial:
    block = Block(0, 0, [step] * 5, losses or [], [samples] * 5)
    return TimedTrial([block], TrialResult(ended="stopped", peak=peak))


def pairs(ratio: float, count: int, scatter: float = 0.002) -> list[TrialPair]:
    rng = random.Random(1)
    return [TrialPair(side(1.0), side(ratio * math.exp(rng.gauss(0, scatter)))) for _ in range(count)]


def sides_of(made: list[TrialPair]) -> list[Pair]:
    return list(map(pair_of, made))


def speedup(made: list[TrialPair]) -> Speedup | None:
    return engine.gain(engine.ratios(sides_of(made)))


def measured(sides: list[TimedTrial]) -> Measured:
    return final_gain.speed(list(map(make_visited, sides)))


def test_the_word_and_the_interval() -> None:
    found = speedup(pairs(0.5, 5))
    assert found is not None
    assert found.word == "faster"
    assert found.value == pytest.approx(2.0, rel=0.01)
    assert found.ci95[0] < 2.0 < found.ci95[1]
    assert found.pairs == len(found.ratios) == 5
    slower = speedup(pairs(1.2, 5))
    same = speedup(pairs(1.0, 7, 0.0005))
    wide = speedup(pairs(1.0, 3, 0.1))
    assert [each and each.word for each in (slower, same, wide)] == ["slower", "same", "unclear"]


def in_turns(pair: Pair) -> Pair:
    """The same with rounds, in one of which something else took three times as long."""
    one, other = pair.baseline.figure, pair.final.figure
    rounds = [(one, other * (3 if number == 2 else 1 + 0.01 * number)) for number in range(6)]
    return pair._replace(turns=Turns(rounds, start=1.0, each=1.0))


@pytest.mark.parametrize("have_turns", [False, True])
def test_printed_times_and_rates_have_the_printed_ratio(have_turns: bool) -> None:
    """In turns times were medians of all rounds: 1.3x beside 31.5 and 22.8 ms."""
    made = sides_of(pairs(0.6, 5, 0.2))
    made = list(map(in_turns, made)) if have_turns else made
    found = engine.gain(engine.ratios(made))
    before, after = final_gain.speeds(made, found)
    assert found is not None
    steps = [median(side.seconds) for pair in made for side in pair[:2]]
    assert math.sqrt(before.step * after.step) == pytest.approx(geometric_mean(steps))
    assert before.step / after.step == pytest.approx(found.value)
    assert after.throughput / before.throughput == pytest.approx(found.value)


@pytest.mark.parametrize("count", range(engine.LEAST))
def test_fewer_than_three_pairs_say_nothing(count: int) -> None:
    assert speedup(pairs(0.5, count)) is None


@pytest.mark.parametrize("count", [3, 4, 5, 7, 9])
@pytest.mark.parametrize("scatter", [0.005, 0.07, 0.22])
def test_intervals_hold_the_truth_where_processes_differ(scatter: float, count: int) -> None:
    """Their scatter is taken as it was measured: nothing is shrunk to the noise of a round."""
    rng = random.Random(11)
    held, words = 0, []
    for _ in range(1000):
        found = engine.gain([math.exp(rng.gauss(0, scatter)) for _ in range(count)])
        assert found is not None
        held += found.ci95[0] <= 1 <= found.ci95[1]
        words.append(found.word)
    assert 930 <= held <= 970
    assert words.count("faster") + words.count("slower") <= 20


def test_real_pairs_whose_interval_was_four_times_too_narrow() -> None:
    """Whisper's encoder, four pairs of processes: Student's interval, by hand."""
    found = engine.gain([0.49079887766590696, 0.37768544498807566, 0.5199057150646604, 0.6483932913732733])
    assert found is not None
    assert found.value == pytest.approx(2.00, abs=0.01)
    assert found.ci95 == pytest.approx((1.40, 2.85), abs=0.01)


def test_a_side_is_the_median_of_its_processes() -> None:
    found = measured([side(0.1), side(0.2, peak=5), side(0.4, peak=7)])
    assert found.step == pytest.approx(0.2)
    assert found.throughput == pytest.approx(4 / 0.2)
    assert (found.processes, found.steps, found.peak) == (3, 15, 7)
    assert found.ci95 is not None
    assert found.ci95[0] < 0.2 < found.ci95[1]
    assert measured([side(0.1)]).ci95 is None


def test_a_larger_batch_is_compared_by_sample() -> None:
    found = TrialPair(side(1.0, samples=4), side(1.5, samples=8))
    assert found.ratio == pytest.approx(0.75)


def test_losses_side_by_side() -> None:
    def lost(last: float) -> list[TrialPair]:
        return [
            TrialPair(side(1, losses=[2.0, 1.0 + seed / 100]), side(1, losses=[2.0, last + seed / 100]))
            for seed in range(3)
        ]

    assert convergence_of(lost(1.0), "exact").word == "none"
    assert convergence_of([], "precision").word == "none"
    short = convergence_of(lost(1.0), "precision")
    assert (short.word, short.smoke_test) == ("inconclusive", True)
    broken = [TrialPair(side(1, losses=[1.0] * 30), side(1, losses=[math.nan] * 30)) for _ in range(3)]
    assert convergence_of(broken, "precision").word == "fails"


def test_losses_of_the_patched_script() -> None:
    one = TrialPair(side(1), side(1, losses=[2.0, 1.0]))
    assert same_losses(one, side(1, losses=[2.0, 1.0005])) is True
    assert same_losses(one, side(1, losses=[2.0, 1.1])) is False
    assert same_losses(one, side(1)) is None


def test_losses_that_rounding_moves_are_held_against_how_far_the_recipe_moves_them() -> None:
    """ResNet-18 in bfloat16 and channels_last, steps 3 and 4: as it is, as an edit, under hooks."""
    own, edit, hooks = [2.4441, 2.3767], [2.4407, 2.3832], side(1, losses=[2.4362, 2.3943])
    assert same_losses(TrialPair(side(1, losses=own), side(1, losses=edit)), hooks) is True
    assert same_losses(TrialPair(side(1, losses=own), side(1, losses=[2.55, 2.3])), hooks) is False


MOST = 7


def taken(
    made: list[TrialPair], *, each: float, until: float, end: float = 1000.0, expected: float = 0.0
) -> int:
    """Pairs that are measured where each takes so many seconds and comes out as it was made up."""
    left, now, asked = iter(sides_of(made)), [0.0], list[int]()

    def visit(number: int, until: float) -> Pair:
        asked.append(number)
        now[0] += each
        return next(left)

    given: dict[str, Any] = {"until": until, "end": end, "expected": expected}
    for _ in engine.measure_pairs(visit, most=MOST, elapsed=lambda: now[0], **given):
        pass
    assert asked == list(range(len(asked)))
    return len(asked)


def test_pairs_until_it_is_narrow_or_the_time_is_up() -> None:
    assert taken(pairs(0.5, 9, 0.0001), each=10, until=1000) == engine.SURE
    assert taken(pairs(0.5, 9, 0.1), each=10, until=1000) == MOST
    assert taken(pairs(0.5, 9, 0.1), each=10, until=0) == engine.FEWEST
    assert taken(pairs(0.5, 9, 0.1), each=10, until=50) == 5


def test_no_pair_is_begun_that_ends_beyond_the_budget() -> None:
    wide = pairs(0.5, 9, 0.1)
    assert taken(wide, each=10, until=0, end=35, expected=10) == engine.LEAST
    assert taken(wide, each=10, until=0, end=45, expected=10) == engine.FEWEST


def test_fewer_pairs_than_have_an_interval_are_not_begun() -> None:
    assert taken(pairs(0.5, 9, 0.1), each=10, until=0, end=15, expected=10) == 0
    # Nothing is known of a pair before one was measured but what is expected of it.
    assert taken(pairs(0.5, 9, 0.1), each=10, until=0, end=15, expected=5) == 1
