"""Pairs of fresh processes: how many, how long each may take, and the words that they allow.

The unit of evidence is the pair, as processes of one program differ: their scatter is taken as it was
measured (`analysis.paired.from_pairs`). How many there are is decided by time, and by how rounds scatter
within one; never by how the pairs scatter, until there are `SURE` of them: those that agree by luck would
end a measurement too soon."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple, TypeVar

from laptime.analysis.compare import DECISION_LEVEL, judge
from laptime.analysis.paired import BETWEEN_PROCESSES, Effect, from_pairs
from laptime.analysis.paired import LEAST as LEAST
from laptime.analysis.student_t import t_quantile
from laptime.experiment.turns import Turns, fewest, logs, middle, plan_rounds, scale
from laptime.records.tuning import Speedup

_T = TypeVar("_T")
FEWEST = 4  # pairs of fresh processes that a session keeps time for
NARROW = 0.01  # half-width of the interval, as a share, below which more pairs are of no use
SURE = 5
"""Pairs from which a narrow interval ends the measurement: fewer are narrow by luck too often, and what
stops by luck holds the truth too rarely."""


@dataclass(frozen=True)
class Visited:
    """One side in one fresh process."""

    figure: float  # seconds per unit of work, or what else the goal looks at; less is better
    seconds: list[float]  # of its steps, calls or blocks
    rate: float  # samples, items or answers per second
    peak: int | None = None  # bytes; None or 0: unknown


class Pair(NamedTuple):
    """Both sides in a fresh process each. `turns`: None if they ran one after the other."""

    baseline: Visited
    final: Visited
    turns: Turns | None = None


def one_after_the_other(number: int, visit: Callable[[int], _T]) -> tuple[_T, _T]:
    """Visit two sides that cannot live at once; side 1 goes first in every second pair."""
    seen = {at: visit(at) for at in ((0, 1) if number % 2 == 0 else (1, 0))}
    return seen[0], seen[1]


def measure_pairs(
    visit: Callable[[int, float], Pair],
    *,
    most: int,
    elapsed: Callable[[], float],
    until: float,
    end: float,
    expected: float,
    hurried: float = math.inf,
    is_decided: Callable[[], bool] = lambda: True,
) -> Iterator[list[Pair]]:
    """All pairs so far, after each one, until the interval is narrow, or the time is up.

    Args:
        visit: measures the pair of this number, by about this second of the session.
        most: pairs. until: second of the session at which they have to be over, if the fewest fit before it.
        end: second at which the fewest have to be over. expected: seconds of a short pair, until one was
            measured. hurried: of one that `visit` makes if a usual one would not be over in time; inf: it
            makes none. is_decided: whether nothing but the interval is open.
    """
    pairs: list[Pair] = []
    began = elapsed()
    while len(pairs) < most:
        now = elapsed()
        seconds = min(hurried, _shortest(pairs, (now - began) / len(pairs)) if pairs else expected)
        more = max(1, LEAST - len(pairs))  # fewer have no interval
        if now + more * seconds > (until if len(pairs) >= FEWEST else end):
            return
        over = until if now + max(1, FEWEST - len(pairs)) * seconds <= until else end
        pairs.append(visit(len(pairs), _over_by(pairs, now, over, most)))
        yield pairs
        if len(pairs) >= SURE and is_decided() and _effect(ratios(pairs)).reach(0.025) < NARROW:
            return


def _shortest(pairs: Sequence[Pair], average: float) -> float:
    """Seconds of the next pair if it is kept as short as one may be."""
    turns = [pair.turns for pair in pairs if pair.turns]
    if not turns:
        return average
    start, each = turns[-1].start, fmean(one.each for one in turns)
    return start + fewest(start, each) * each


def _over_by(pairs: Sequence[Pair], now: float, end: float, most: int) -> float:
    """Second by which the next pair should be over: that of the plan with the narrowest interval."""
    done = len(pairs)
    turns = [pair.turns for pair in pairs if pair.turns]
    if not turns:
        return now + (end - now) / max(1, FEWEST - done)
    start, each = turns[-1].start, fmean(one.each for one in turns)  # the newest is what the next will be
    within = scale([logs(one.rounds) for one in turns]) ** 2
    past = [len(one.rounds) for one in turns]

    def reach(number: int) -> float:
        rounds = ((end - now) / (number - done) - start) / max(each, 1e-9)
        if rounds < fewest(start, each):
            return math.inf
        to_come = [min(rounds, plan_rounds(within, start, each))] * (number - done)
        pairs = [BETWEEN_PROCESSES**2 + within / taken for taken in (*past, *to_come)]
        return t_quantile((1 + DECISION_LEVEL) / 2, number - 1) * math.sqrt(sum(pairs)) / number

    return now + (end - now) / (min(range(max(LEAST, done + 1), most + 1), key=reach) - done)


def ratios(pairs: Sequence[Pair]) -> list[float]:
    """Time, final over as it is, one a pair: how far a round may scatter is known from all of them."""
    deviation = scale([logs(pair.turns.rounds) for pair in pairs if pair.turns])
    return [
        math.exp(middle(logs(pair.turns.rounds), deviation))
        if pair.turns
        else pair.final.figure / pair.baseline.figure
        for pair in pairs
    ]


def _effect(values: Sequence[float]) -> Effect:
    """Return the effect of values that each come from processes of their own."""
    return from_pairs([math.log(value) for value in values])


def gain(values: Sequence[float], apart: str = "", forked: int = 0) -> Speedup | None:
    """The gain that time ratios show, final over as it is, each of a pair; None below `LEAST`. apart: why the
    sides of a pair ran one after the other. forked: pairs whose processes were forks."""
    if len(values) < LEAST:
        return None
    effect = _effect(values)
    word, ci95 = judge(effect)
    return Speedup(
        value=effect.speedup,
        ci95=ci95,
        word=word,
        pairs=len(values),
        ratios=list(values),
        apart=apart,
        forked=forked,
    )
