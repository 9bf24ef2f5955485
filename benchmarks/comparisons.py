"""How often is a comparison right? Made-up machines and processes, a clock of its own, the real engine.

Both sides of a pair live at once and take turns (`laptime.experiment`). A session ends as sessions do: by
time, after so many pairs, or narrow. The truth is planted: equal sides, or a final side 5 % faster.

    differ     sessions of equal sides that say faster or slower
    holds      sessions whose 95 % interval holds the truth
    found      sessions that say faster of 5 %, with twice the rounds that the best possible test needs
    half       median half-width of the interval

The best possible test knows what the machine did to every block, how blocks scatter besides, and that
processes do not differ: it divides the first out, and asks the normal distribution for the rest. Its rounds
follow from a formula. Estimators of a pair are compared with --estimators.
"""

from __future__ import annotations

import math
import random
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from statistics import NormalDist, fmean, median

from _harness import Figures, option, run, table
from laptime.analysis.compare import DECISION_LEVEL
from laptime.analysis.paired import trim
from laptime.experiment import turns
from laptime.experiment.pairs import Pair, Visited, gain, measure_pairs, ratios
from laptime.records.tuning import Speedup

Dice = random.Random
Machine = Callable[[float], float]
DIFFER = (0.0, 0.03, 0.07, 0.14, 0.22)
STOPS = (3, 4, 5, 7, 9)
"""Pairs after which the time is up."""
START, BLOCK = 10.0, 0.6
"""Seconds until a side is warm, and of a block."""


@dataclass
class World:
    """What happens to a block.

    Attributes:
        machine: makes a factor on the time of what runs at a second, from dice. noise: scatter of a block
            besides. first: share by which the first block of a process is slower; each later one half of it.
        tail: degrees of freedom of the noise; 0: normal.
    """

    machine: Callable[[Dice], Machine] = field(default=lambda dice: lambda second: 1.0)
    noise: float = 0.03
    first: float = 0.0
    tail: int = 0

    def scatter(self, dice: Dice) -> float:
        """Log of what a block takes longer, by luck."""
        if not self.tail:
            return dice.gauss(0, self.noise)
        chi = sum(dice.gauss(0, 1) ** 2 for _ in range(self.tail))
        return max(-3.0, min(3.0, self.noise * dice.gauss(0, 1) / math.sqrt(chi / self.tail)))


def switching(slow: float, on: float, off: float) -> Callable[[Dice], Machine]:
    """A machine that is slower by a factor for about `on` seconds, then itself for about `off`."""

    def make(dice: Dice) -> Machine:
        edges = [dice.expovariate(1 / off)]

        def at(second: float) -> float:
            while edges[-1] < second:
                edges.append(edges[-1] + dice.expovariate(1 / (on if len(edges) % 2 else off)))
            passed = next(
                number
                for number in range(len(edges) - 1, -1, -1)
                if number == 0 or edges[number - 1] <= second
            )
            return slow if passed % 2 else 1.0

        return at

    return make


def drifting(dice: Dice) -> Machine:
    """Slower by up to a third, in waves of some minutes."""
    phase, length = dice.random() * 6.28, dice.uniform(60, 300)
    return lambda second: 1.0 + 0.17 * (1 + math.sin(phase + 6.28 * second / length))


def periodic(dice: Dice) -> Machine:
    """A neighbour that wakes as often as a round comes by."""
    phase = dice.random()
    return lambda second: 1.4 if (second / (2 * BLOCK) + phase) % 1.0 < 0.4 else 1.0


def crowd(dice: Dice) -> Machine:
    """Four neighbours, each on and off."""
    each = [switching(1.25, 2.0, 6.0)(dice) for _ in range(4)]
    return lambda second: math.prod(one(second) for one in each)


def worse(dice: Dice) -> Machine:
    """A machine that gets slower and slower."""
    return lambda second: 1.0 + second / 300


WORLDS = {
    "quiet": World(),
    "bursts": World(switching(1.5, 3.0, 9.0)),
    "drift": World(drifting),
    "two speeds": World(switching(1.4, 20.0, 20.0)),
    "slow start": World(first=0.2),
    "heavy tails": World(tail=2),
}
FURTHER = {
    "short bursts": World(switching(2.5, 0.3, 5.0)),
    "in step": World(periodic),
    "crowd": World(crowd, noise=0.06),
    "worse and worse": World(worse, first=0.1),
    "Cauchy": World(tail=1, noise=0.01),
    "rare and long": World(switching(3.0, 30.0, 120.0), noise=0.01),
}
"""Of other kinds than those above; seen while the engine was written, too."""


@dataclass
class Clock:
    """Seconds of the session."""

    now: float = 0.0


@dataclass
class MadeUp:
    """A side whose truth is known."""

    world: World
    machine: Machine
    clock: Clock
    dice: Dice
    takes: float
    blocks: int = 0

    def start(self) -> None:
        self.clock.now += START * self.machine(self.clock.now)

    def warm(self) -> None:
        pass

    def block(self) -> float:
        first = self.world.first * 0.5**self.blocks
        self.blocks += 1
        alone = self.takes * (1 + first) * math.exp(self.world.scatter(self.dice))
        seconds = BLOCK * alone * self.machine(self.clock.now + BLOCK * alone / 2)
        self.clock.now += seconds
        return seconds / BLOCK

    def finish(self) -> None:
        pass

    def close(self) -> None:
        pass


def measure(
    dice: Dice, world: World, differ: float, truth: float, *, seconds: float, most: int
) -> Speedup | None:
    """One session: the final side takes `truth` of the time, a pair's processes differ by so much."""
    clock, machine = Clock(), world.machine(dice)

    def visit(number: int, over_by: float) -> Pair:
        takes = [1.0, truth * math.exp(dice.gauss(0, differ))]
        sides = [MadeUp(world, machine, clock, dice, each) for each in takes]
        found = turns.take_turns(
            (sides[0], sides[1]), until=over_by, elapsed=lambda: clock.now, seed=dice.randrange(1 << 30)
        )
        side = Visited(1.0, [1.0], 1.0)
        return Pair(side, side, found)

    *_, pairs = measure_pairs(
        visit, most=most, elapsed=lambda: clock.now, until=seconds, end=seconds, expected=2 * START
    )
    return gain(ratios(pairs))


def best_rounds(world: World, differ: float, planted: float) -> float:
    """Rounds of the best possible test that says a word wrongly as rarely and misses one in twenty.

    Student's t of `tail` degrees of freedom informs about its middle as a normal distribution does whose
    variance is (tail + 3) / (tail + 1) times its squared scale (Cramer-Rao).
    """
    spread = world.noise**2 * ((world.tail + 3) / (world.tail + 1) if world.tail else 1.0)
    away = math.log(planted) - math.log(1.01)
    certain = NormalDist().inv_cdf((1 + DECISION_LEVEL) / 2) + NormalDist().inv_cdf(0.95)
    return 2 * spread * (certain / away) ** 2


def rates(dice: Dice, world: World, differ: float, each: int) -> dict[str, float]:
    """Equal sides, at all numbers of pairs at which a session may stop; a planted 5 %, where time ends it."""
    found = []
    for number in range(each):
        stop = STOPS[number % len(STOPS)]
        made = measure(dice, world, differ, 1.0, seconds=1e9, most=stop)
        assert made is not None
        found.append(made)
    row = {
        "differ": fmean(one.word in ("faster", "slower") for one in found),
        "holds": fmean(one.ci95[0] <= 1 <= one.ci95[1] for one in found),
        "half": median(math.log(one.ci95[1] / one.ci95[0]) / 2 for one in found),
    }
    if differ == 0.0:
        rounds = 2 * best_rounds(world, differ, 1.05)
        slow = fmean(machine(second) for machine in map(world.machine, [dice] * 20) for second in range(300))
        seconds = slow * (2 * START * 9 + 2 * BLOCK * rounds)
        power = [measure(dice, world, 0.0, 1 / 1.05, seconds=seconds, most=12) for _ in range(each)]
        row |= {"found": fmean(bool(one and one.word == "faster") for one in power), "rounds": rounds}
    return row


def cut(logs: Sequence[float], count: int) -> float:
    return trim(logs, min(count, (len(logs) - 1) // 2))[0]


def huber(logs: Sequence[float], deviation: float) -> float:
    at, reach = median(logs), max(1.345 * deviation, 1e-9)
    for _ in range(turns.STEPS):
        weights = [min(1.0, reach / max(abs(value - at), 1e-12)) for value in logs]
        at = fmean(logs, weights)
    return at


ESTIMATORS: dict[str, Callable[[Sequence[float], float], float]] = {
    "mean": lambda logs, _: fmean(logs),
    "trimmed 20 %": lambda logs, _: cut(logs, len(logs) // 5),
    "a third": lambda logs, _: cut(logs, len(logs) // 3),
    "a sixth and one": lambda logs, _: cut(logs, len(logs) // 6 + 1),
    "median": lambda logs, _: median(logs),
    "pairwise means": lambda logs, _: median([(a + b) / 2 for i, a in enumerate(logs) for b in logs[i:]]),
    "Huber": huber,
    "biweight": turns.middle,
}
"""Of the rounds of a pair; the last two are given the scatter of a round, from six pairs."""


def one_pair(dice: Dice, world: World, machine: Machine, clock: Clock, rounds: int) -> list[float]:
    """Log ratios of equal sides."""
    sides = [MadeUp(world, machine, clock, dice, 1.0) for _ in range(2)]
    blocks = [side.block for side in sides]
    return turns.logs(list(islice(turns.rounds(blocks, dice), rounds)))


def estimators(asked: Namespace, data: Figures) -> int:
    """Scatter of the estimate of one pair of equal sides, in percent, by rounds."""
    rows = []
    for name, world in {**WORLDS, **FURTHER}.items():
        for rounds in (6, 24):
            dice = random.Random(f"{name}{rounds}")
            spread: dict[str, list[float]] = {each: [] for each in ESTIMATORS}
            for _ in range(max(1, asked.each // 6)):
                clock, machine = Clock(dice.uniform(0, 100)), world.machine(dice)
                pairs = [one_pair(dice, world, machine, clock, rounds) for _ in range(6)]
                deviation = turns.scale(pairs)
                for each, estimate in ESTIMATORS.items():
                    spread[each] += [estimate(logs, deviation) for logs in pairs]
            errors = [math.sqrt(fmean(value * value for value in of)) for of in spread.values()]
            rows.append((name, str(rounds), *(f"{100 * error:.2f}" for error in errors)))
    table(("machine", "rounds", *ESTIMATORS), rows)
    data |= {"estimators": rows}
    return 0


def main(asked: Namespace, data: Figures) -> int:
    """Print a table; 1 where an interval holds the truth in less than 93 %, or words are wrong too often."""
    if asked.estimators:
        return estimators(asked, data)
    rows = []
    for name, world in {**WORLDS, **FURTHER}.items():
        for differ in DIFFER:
            dice = random.Random(f"{name}{differ}")
            rows.append({"world": name, "differs": differ, **rates(dice, world, differ, asked.each)})
    table(
        ("machine", *(f"differ by {each:.0%}: differ, holds, half" for each in DIFFER), "5 %: rounds, found"),
        [
            (
                name,
                *(f"{row['differ']:.1%}, {row['holds']:.1%}, {row['half']:.1%}" for row in of),
                f"{of[0]['rounds']:.0f}, {of[0]['found']:.1%}",
            )
            for name in {**WORLDS, **FURTHER}
            for of in [[row for row in rows if row["world"] == name]]
        ],
    )
    data |= {"rows": rows}
    return int(any(row["holds"] < 0.93 or row["differ"] > 0.01 for row in rows))


if __name__ == "__main__":
    run(
        main,
        "Comparisons in turns: error rates on made-up machines",
        option("--each", type=int, default=500, help="sessions of a row"),
        option("--estimators", action="store_true", help="compare estimators of a pair instead"),
    )
