"""Sides that take turns, on made-up machines with a clock of their own."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from itertools import islice
from statistics import fmean
from typing import Any

import pytest

from laptime.experiment import turns
from laptime.experiment.pairs import FEWEST, LEAST, Pair, Visited, gain, measure_pairs, ratios
from laptime.experiment.turns import (
    FEWEST_ROUNDS,
    HURRIED,
    MOST_ROUNDS,
    Over,
    Turns,
    looks,
    orders,
    take_turns,
)


@dataclass
class Machine:
    """Its clock, who has done what, and who runs."""

    now: float = 0.0
    log: list[tuple[str, str]] = field(default_factory=list)
    slow: float = 1.0

    def elapsed(self) -> float:
        return self.now


@dataclass
class Side:
    machine: Machine
    name: str
    takes: float = 1.0
    ready: float = 5.0
    blocks: int = 10**6
    noise: random.Random | None = None
    fails: str = ""

    def _did(self, what: str) -> None:
        self.machine.log.append((self.name, what))
        if what == self.fails:
            raise KeyboardInterrupt

    def start(self) -> None:
        self._did("start")

    def warm(self) -> None:
        self.machine.now += self.ready
        self._did("warm")

    def block(self) -> float:
        self._did("block")
        self.blocks -= 1
        if self.blocks < 0:
            raise Over
        seconds = self.takes * self.machine.slow * math.exp(self.noise.gauss(0, 0.05) if self.noise else 0.0)
        self.machine.now += seconds
        return seconds

    def finish(self) -> None:
        self._did("finish")

    def close(self) -> None:
        self.machine.log.append((self.name, "close"))


def taken(machine: Machine, baseline: Side, final: Side, *, until: float = 1e9, seed: int = 0) -> Turns:
    return take_turns((baseline, final), until=until, elapsed=machine.elapsed, seed=seed)


def pair_of(found: Turns) -> Pair:
    side = Visited(1.0, [1.0], 1.0)
    return Pair(side, side, found)


def ratio_of(found: Turns) -> float:
    return ratios([pair_of(found)])[0]


def test_both_are_alive_before_either_is_timed_and_the_order_of_a_round_is_random() -> None:
    machine, noise = Machine(), random.Random(3)
    found = taken(machine, Side(machine, "a", noise=noise), Side(machine, "b", 0.5, noise=noise))
    assert [what for _, what in machine.log[:4]] == ["start", "start", "warm", "warm"]
    blocks = [name for name, what in machine.log if what == "block"]
    rounds = [tuple(blocks[at : at + 2]) for at in range(0, len(blocks), 2)]
    assert set(rounds) == {("a", "b"), ("b", "a")}
    assert ratio_of(found) == pytest.approx(0.5, rel=0.05)
    assert found.start == pytest.approx(10.0)


def test_time_ends_a_pair_but_for_the_fewest_rounds_and_scatter_decides_the_most() -> None:
    machine = Machine()
    quiet = taken(machine, Side(machine, "a"), Side(machine, "b"))
    assert len(quiet.rounds) == FEWEST_ROUNDS, "equal rounds say nothing more"
    noise, machine = random.Random(1), Machine()
    slow = taken(machine, Side(machine, "a", ready=500.0, noise=noise), Side(machine, "b", noise=noise))
    assert len(slow.rounds) == MOST_ROUNDS, "starts are dear"
    machine = Machine()
    late = taken(machine, Side(machine, "a", noise=noise), Side(machine, "b", noise=noise), until=0.0)
    assert len(late.rounds) == FEWEST_ROUNDS
    machine = Machine()
    dear = taken(
        machine, Side(machine, "a", 2.0, noise=noise), Side(machine, "b", 2.0, noise=noise), until=0.0
    )
    assert len(dear.rounds) == HURRIED, "a round takes almost half as long as the start"


def test_a_script_that_is_over_leaves_its_whole_rounds() -> None:
    machine = Machine()
    found = taken(machine, Side(machine, "a", blocks=2), Side(machine, "b"))
    assert len(found.rounds) == 2
    with pytest.raises(Over):
        taken(machine, Side(machine, "a", blocks=0), Side(machine, "b"))


@pytest.mark.parametrize("stage", ["start", "warm", "block", "finish"])
@pytest.mark.parametrize("who", ["a", "b"])
def test_whatever_happens_both_are_closed(stage: str, who: str) -> None:
    machine = Machine()
    sides = [Side(machine, name, fails=stage if name == who else "") for name in "ab"]
    with pytest.raises(KeyboardInterrupt):
        taken(machine, sides[0], sides[1])
    started = {name for name, what in machine.log if what == "start"}
    assert started <= {name for name, what in machine.log if what == "close"}


def test_one_bad_block_in_three_does_not_move_the_ratio() -> None:
    rounds = [(1.0, 0.8)] * 6 + [(1.0, 2.4), (3.0, 0.8), (1.0, 1.6)]
    assert ratio_of(Turns(rounds, 1.0, 1.0)) == pytest.approx(0.8)


def test_time_is_split_into_the_pairs_that_make_the_interval_narrow() -> None:
    """Starts of 10 s, rounds of 2 s that scatter by 7 %: 200 s are more than three pairs of few rounds."""
    machine, noise = Machine(), random.Random(5)

    def visit(number: int, until: float) -> Pair:
        found = taken(
            machine,
            Side(machine, "a", noise=noise),
            Side(machine, "b", noise=noise),
            until=until,
            seed=number,
        )
        return pair_of(found)

    given = {"elapsed": machine.elapsed, "until": 150.0, "end": 200.0, "expected": 20.0}
    *_, pairs = measure_pairs(visit, most=9, **given)  # type: ignore[arg-type]
    assert len(pairs) >= FEWEST
    assert machine.now <= 150.0, "what follows the pairs keeps its time"
    assert machine.now > 120.0, "the time is used"
    found = gain(ratios(pairs))
    assert found is not None
    assert found.word in ("unclear", "same")
    assert LEAST <= found.pairs == len(pairs)


@pytest.mark.parametrize("differ", [0.0, 0.07])
def test_two_equal_sides_are_not_called_different(differ: float) -> None:
    """On a machine that is slowed down by half in every fourth round; benchmarks/comparisons.py has more."""
    dice, words, held = random.Random(7), [], []
    for seed in range(300):
        machine, pairs = Machine(), list[Turns]()
        for _ in range(5):
            final = Side(machine, "b", math.exp(dice.gauss(0, differ)), noise=dice)
            machine.slow = 1.5 if dice.random() < 0.25 else 1.0
            pairs.append(taken(machine, Side(machine, "a", noise=dice), final, seed=seed))
        found = gain(ratios(list(map(pair_of, pairs))))
        assert found is not None
        words.append(found.word)
        held.append(found.ci95[0] <= 1 <= found.ci95[1])
    assert sum(each in ("faster", "slower") for each in words) <= 7
    assert 0.92 <= fmean(held) <= 0.985


def test_a_machine_that_became_slow_still_has_the_fewest_pairs_if_some_are_hurried() -> None:
    """Starts of 40 s in place of 10, rounds of 8 s in place of 2: three such pairs do not fit into 140 s."""

    def measured(hurried: float) -> int:
        now = [0.0]

        def visit(number: int, until: float) -> Pair:
            start = 40.0 if now[0] + 48.0 <= until or math.isinf(hurried) else 8.0
            now[0] += start + 16.0
            return pair_of(Turns([(2.0, 1.0), (2.0, 1.1)], start=start, each=8.0))

        given: dict[str, Any] = {"elapsed": lambda: now[0], "until": 120.0, "end": 140.0, "expected": 14.0}
        return sum(1 for _ in measure_pairs(visit, most=7, hurried=hurried, **given))

    assert measured(math.inf) < LEAST
    assert measured(24.0) >= LEAST


def test_rounds_follow_from_both_variances_and_the_cost_of_a_start() -> None:
    few = turns.plan_rounds(0.0004, start=10.0, each=2.0)
    assert turns.plan_rounds(0.0016, start=10.0, each=2.0) == pytest.approx(2 * few)
    assert turns.plan_rounds(0.0004, start=40.0, each=2.0) == pytest.approx(2 * few)
    assert turns.plan_rounds(0.0, start=10.0, each=2.0) == FEWEST_ROUNDS


def test_pairs_of_few_rounds_are_followed_by_more_pairs_not_by_a_long_one() -> None:
    """Starts of 12 s, rounds of 0.5 s that scatter by 40 %: 67 s are four pairs of a few rounds."""
    now, dice = [0.0], random.Random(3)

    def visit(number: int, until: float) -> Pair:
        rounds = [(1.0, math.exp(dice.gauss(0, 0.4)))] * 2 if number == 0 else []
        while len(rounds) < FEWEST_ROUNDS or now[0] + 12.0 + 0.5 * len(rounds) < until - 0.5:
            rounds.append((1.0, math.exp(dice.gauss(0, 0.4))))
        now[0] += 12.0 + 0.5 * len(rounds)
        return pair_of(Turns(rounds, start=12.0, each=0.5))

    given = {"elapsed": lambda: now[0], "until": 67.0, "end": 75.0, "expected": 14.0}
    *_, pairs = measure_pairs(visit, most=7, **given)  # type: ignore[arg-type]
    assert len(pairs) == 4
    assert now[0] <= 67.5


def test_every_case_comes_once_a_round_and_every_second_round_mirrors_the_first() -> None:
    found = list(islice(orders("ABCDE", 7), 20))
    assert all(sorted(order) == list("ABCDE") for order in found)
    for first, second in zip(found[::2], found[1::2], strict=True):
        assert second == first[::-1]
    assert len({tuple(order) for order in found[::2]}) > 3


def test_the_order_follows_from_the_seed() -> None:
    one, other = (list(islice(orders("ABCDE", seed), 10)) for seed in (1, 1))
    assert one == other
    assert one != list(islice(orders("ABCDE", 2), 10))


def test_no_case_is_always_first() -> None:
    firsts = [order[0] for order in islice(orders("AB", 3), 100)]
    assert firsts.count("A") == firsts.count("B") == 50  # what mirrors makes up for what is drawn


def test_looks_are_few_and_ever_farther_apart() -> None:
    found = list(islice(looks(), 12))
    assert found[:6] == [2, 3, 4, 5, 8, 11]
    assert found == sorted(set(found))
    assert found[-1] - found[-2] > 10 * (found[1] - found[0])
