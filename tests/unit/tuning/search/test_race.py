"""When a race ends, and in which word."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from laptime.tuning.search import ranking
from laptime.tuning.search.evaluator import Round, TrialFailed
from laptime.tuning.search.race import LOOKS, RaceTerms, looks_for, race


class Rounds:
    """Rounds with a true ratio and some scatter; counts what was taken, and whether it was closed."""

    def __init__(
        self, ratio: float, scatter: float = 0.0, *, memory: float | None = None, seed: int = 0
    ) -> None:
        self.taken, self.closed = 0, False
        self._ratio, self._scatter, self._memory = ratio, scatter, memory
        self._random = random.Random(seed)

    def __iter__(self) -> Iterator[Round]:
        try:
            while True:
                self.taken += 1
                shaken = self._ratio * (1 + self._random.gauss(0, self._scatter))
                yield Round(shaken, self._memory, self.taken)
        finally:
            self.closed = True


def test_a_huge_gain_is_believed_at_the_first_look() -> None:
    rounds = Rounds(0.6, 0.02)
    result = race(iter(rounds), RaceTerms(noise=0.02))
    assert (result.word, result.rounds) == ("faster", 4)
    assert result.speedup == pytest.approx(1 / 0.6, rel=0.05)
    assert result.ci95 is not None
    assert result.ci95[0] < 1 / 0.6 < result.ci95[1]


def test_what_is_twice_as_slow_costs_two_rounds() -> None:
    rounds = Rounds(2.0, 0.02)
    result = race(iter(rounds), RaceTerms(noise=0.02))
    assert (result.word, result.rounds, rounds.taken) == ("slower", 2, 2)
    assert rounds.closed


def test_nothing_is_given_up_early_as_no_gain() -> None:
    result = race(iter(Rounds(1.03, 0.01)), RaceTerms(noise=0.01))
    assert result.word in ("slower", "unclear")
    assert result.rounds < LOOKS[-1]
    assert result.word != "unclear" or result.reason


@pytest.mark.parametrize("looks", [(3,), (4, 6)])
def test_no_word_contradicts_the_interval_beside_it(looks: tuple[int, ...]) -> None:
    for seed in range(200):
        result = race(iter(Rounds(1.04, 0.05, seed=seed)), RaceTerms(looks=looks, noise=0.05, margin=0.0))
        if result.word in ("faster", "slower"):
            assert result.ci95 is not None
            low, high = result.ci95
            assert low > 1 or high < 1, (seed, result)


def test_same_needs_proof() -> None:
    quiet = race(iter(Rounds(1.0, 0.0005)), RaceTerms(noise=0.0005, looks=(12,)))
    loud = race(iter(Rounds(1.0, 0.05)), RaceTerms(noise=0.05, looks=(12,)))
    assert quiet.word == "same"
    assert loud.word == "unclear"


def test_a_gain_below_the_margin_is_not_claimed() -> None:
    result = race(iter(Rounds(0.995, 0.0005)), RaceTerms(noise=0.0005, looks=(12,)))
    assert result.word == "same"
    wide = race(iter(Rounds(0.9, 0.001)), RaceTerms(noise=0.001, margin=0.2, looks=(12,)))
    assert wide.word == "same"


def test_it_ends_when_the_time_is_up_and_says_so() -> None:
    count = iter(range(100))
    result = race(iter(Rounds(0.97, 0.05)), RaceTerms(noise=0.05, spent=lambda: next(count) >= 4))
    assert result.rounds == 5
    assert result.out_of_time
    assert "after 5 rounds" in result.reason


def test_too_few_rounds_say_nothing() -> None:
    result = race(iter([Round(0.5), Round(0.5)]), RaceTerms())
    assert result.word == "unclear"
    assert "2 rounds" in result.reason
    none = race(iter([]), RaceTerms())
    assert (none.word, none.speedup, none.ci95) == ("unclear", None, None)


def test_memory_is_raced_by_its_peaks() -> None:
    smaller = race(iter(Rounds(1.2, 0.01, memory=0.7)), RaceTerms(goal="memory"))
    assert smaller.word == "smaller"
    assert smaller.memory == pytest.approx(0.7)
    assert smaller.speedup == pytest.approx(1 / 1.2, rel=0.05)
    assert race(iter(Rounds(0.5, 0.01, memory=1.5)), RaceTerms(goal="memory")).word == "larger"


def test_unknown_peaks_do_not_race_for_ever() -> None:
    rounds = Rounds(0.5)
    result = race(iter(rounds), RaceTerms(goal="memory"))
    assert result.word == "unclear"
    assert rounds.taken == 3
    assert "could not" in result.reason


def test_a_failure_of_the_trial_is_passed_on() -> None:
    def failing() -> Iterator[Round]:
        yield Round(0.9)
        raise TrialFailed("memory", "17 GB")

    with pytest.raises(TrialFailed):
        race(failing(), RaceTerms())


def test_rounds_before_the_time_of_all_races_was_up_are_not_lost() -> None:
    """minGPT's adder: a race of 166 s was "not tried", its rounds were thrown away."""

    def until_the_budget() -> Iterator[Round]:
        yield from (Round(0.9), Round(0.91), Round(0.89))
        raise TrialFailed("budget", "the session's time was up")

    ended = race(until_the_budget(), RaceTerms(noise=0.01))
    assert (ended.rounds, ended.out_of_time) == (3, True)
    assert "the time was up after 3 rounds" in ended.reason

    def at_once() -> Iterator[Round]:
        raise TrialFailed("budget", "the session's time was up")
        yield

    with pytest.raises(TrialFailed):
        race(at_once(), RaceTerms())


def test_a_smaller_chance_of_error_asks_for_more() -> None:
    found = []
    for alpha in (0.05, 0.001):
        terms = RaceTerms(noise=0.03, alpha=alpha)
        found.append(
            [race(iter(Rounds(0.95, 0.03, seed=seed)), terms).word for seed in range(60)].count("faster")
        )
    assert found[0] > 1.5 * found[1]


def test_looks_follow_the_time_and_the_noise() -> None:
    assert looks_for(1.0, 0.0, 1000.0)[-1] == 18
    assert looks_for(100.0, 0.0, 100.0) == (3, 5)
    assert looks_for(1.0, 0.0, 1000.0, noise=0.15)[-1] == 48
    assert looks_for(1.0, 0.0, 1000.0, certify=True)[-1] == 24
    # A long start leaves time for fewer rounds.
    assert looks_for(1.0, 18.0, 13.0)[-1] < looks_for(1.0, 0.0, 13.0)[-1]


def test_what_can_be_seen_shrinks_with_rounds_and_grows_with_noise() -> None:
    assert ranking.detectable(0.01, 18) < ranking.detectable(0.1, 18)
    assert ranking.detectable(0.1, 48) < ranking.detectable(0.1, 12)
    assert ranking.detectable(0.0, 18) > 0.01
