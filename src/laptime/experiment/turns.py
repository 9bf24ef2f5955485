"""Sides that live at once and take turns, a block each, in random order within every round.

Both meet the same machine within seconds of each other: what it does to a round it does to both, and what it
does to one alone falls on either by lot. So every round counts, disturbed or not. Noise costs power, not
truth."""

import math
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from statistics import median
from typing import Protocol, TypeVar

from laptime.analysis.paired import BETWEEN_PROCESSES

FEWEST_ROUNDS, MOST_ROUNDS = 4, 48
"""Rounds of a pair: fewer leave one bad block in charge, more say nothing that another pair would not say
better."""
HURRIED = 2  # rounds of a pair whose time is short: three pairs of two say more than two of four
OF_A_RACE = 3  # rounds of a race after which both sides get new processes
FAR, STEPS = 6.0, 20  # deviations from the middle at which a round has no weight; steps to find the middle


class Side(Protocol):
    """One side of a comparison, in a process of its own."""

    def start(self) -> None:
        """Start a fresh process, and do not wait for it."""

    def warm(self) -> None:
        """Wait until it is warm; then it stands still."""

    def block(self) -> float:
        """Let it go on for a block; seconds per unit of work, without what came before it could settle.
        Raises Over: it has no more blocks."""

    def finish(self) -> None:
        """End it in order, with its own account of what it used."""

    def close(self) -> None:
        """End it, started or not, standing still or not."""


_Side = TypeVar("_Side", bound=Side)
_Item = TypeVar("_Item")


class Over(Exception):
    """A side has ended by itself."""


@dataclass(frozen=True)
class Turns:
    """The result of a pair that took turns."""

    # seconds per unit of work, as it is and final, a pair of numbers a round
    rounds: list[tuple[float, float]]
    start: float  # seconds until both were warm
    each: float  # seconds of a round, on the average


def logs(found: Sequence[tuple[float, float]]) -> list[float]:
    """Log time ratio of each round, final over as it is."""
    return [math.log(final / baseline) for baseline, final in found]


def scale(pairs: Sequence[Sequence[float]]) -> float:
    """Standard deviation of a round within its pair, without spikes: by the median absolute deviation from
    the median of the pair (Hampel 1974). pairs: log ratios of their rounds."""
    apart = [abs(value - median(values)) for values in pairs for value in values if len(values) > 1]
    fitted = sum(len(values) > 1 for values in pairs)  # a middle of each
    return 1.4826 * median(apart) * math.sqrt(len(apart) / (len(apart) - fitted)) if apart else 0.0


def middle(values: Sequence[float], deviation: float) -> float:
    """The log ratio of a pair: Tukey's biweight of its rounds (Mosteller & Tukey 1977, 10). What lies further
    than `FAR` deviations from it has no weight. deviation: of a round; best known from all pairs."""
    at, reach = median(values), max(FAR * deviation, 1e-9)
    for _ in range(STEPS):
        weights = [max(0.0, 1 - ((value - at) / reach) ** 2) ** 2 for value in values]
        if not any(weights):
            break
        at = sum(weight * value for weight, value in zip(weights, values, strict=True)) / sum(weights)
    return at


def plan_rounds(within: float, start: float, each: float) -> float:
    """Rounds of a pair that give most for their time (Cochran 1977, 10.6). within: variance of a round.
    start: seconds of a pair before the first. each: seconds of one."""
    best = math.sqrt(within * start / max(each, 1e-9)) / BETWEEN_PROCESSES
    return max(FEWEST_ROUNDS, min(MOST_ROUNDS, best))


def fewest(start: float, each: float) -> int:
    """Rounds of a pair at least. start: seconds of it before the first. each: seconds of one."""
    return HURRIED if 2 * HURRIED * each > start else FEWEST_ROUNDS


def orders(items: Sequence[_Item], seed: int | random.Random) -> Iterator[list[_Item]]:
    """Endless rounds, each with every item once in random order; every second one mirrors the one before.

    A minute of A and then a minute of B would measure the machine's drift; blocks close in time share it."""
    dice = seed if isinstance(seed, random.Random) else random.Random(seed)  # noqa: S311, an order
    while True:
        order = dice.sample(items, len(items))
        yield order
        yield order[::-1]


def looks() -> Iterator[int]:
    """Numbers of rounds after which to check whether to stop: 2, 3, 4, 5, 8, 11, 15, 21, 30 ...

    Few and ever farther apart, because each look is another chance to stop on a lucky interval."""
    at, last = 2.0, 1
    while True:
        if round(at) > last:
            last = round(at)
            yield last
        at *= 1.4


def rounds(blocks: Sequence[Callable[[], float]], dice: random.Random) -> Iterator[tuple[float, float]]:
    """Yield the figures of a block of each side, round by round, until one is over."""
    for order in orders((0, 1), dice):
        figures = [0.0, 0.0]
        try:
            for at in order:
                figures[at] = blocks[at]()
        except Over:
            return
        yield figures[0], figures[1]


@contextmanager
def alive(sides: Sequence[Side], dice: random.Random) -> Iterator[None]:
    """Start all sides in random order and wait until they are warm; they are closed, whatever happens."""
    with ExitStack() as stack:
        for at in dice.sample(range(len(sides)), len(sides)):
            stack.callback(sides[at].close)
            sides[at].start()
        for side in sides:
            side.warm()
        yield


def take_turns(sides: tuple[Side, Side], *, until: float, elapsed: Callable[[], float], seed: int) -> Turns:
    """Start both, and time their blocks round by round; both are closed, whatever happens. until: second at
    which no further round is begun, if there are enough. seed: of the random order.
    Raises Over: one ended before there was a round."""
    began, dice = elapsed(), random.Random(seed)  # noqa: S311, an order
    found: list[tuple[float, float]] = []
    with alive(sides, dice):
        ready = elapsed()
        start, each = ready - began, 0.0
        for figures in rounds([side.block for side in sides], dice):
            found.append(figures)
            each = (elapsed() - ready) / len(found)
            is_late = elapsed() + each > until
            is_sure = len(found) >= plan_rounds(scale([logs(found)]) ** 2, start, each)
            if is_sure or (is_late and len(found) >= fewest(start, each)):
                break
        if not found:
            raise Over
        for side in sides:
            side.finish()
        return Turns(found, start, each)


def take_alone(side: _Side, blocks: int = FEWEST_ROUNDS) -> _Side:
    """A side by itself, for as many blocks as a pair has at least."""
    with alive([side], random.Random(0)), suppress(Over):  # noqa: S311, an order
        for _ in range(blocks):
            side.block()
        side.finish()
    return side
