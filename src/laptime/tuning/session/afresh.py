"""The gain of the whole: as it is and the final set, measured afresh side by side in new processes.

No other number is called the gain. What of a budget a search leaves to it, and to what else follows, is
decided here, too: by what that costs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import geometric_mean, median
from typing import Literal

from msgspec import structs

from laptime.analysis.paired import Effect, from_pairs
from laptime.kit.units import show
from laptime.records.shortfall import Shortfall
from laptime.records.tuning import Measured, Speedup
from laptime.tuning.search.race import RaceTerms, word

FEWEST = 4
"""Pairs of fresh processes, unless the time is short."""
LEAST = 3
"""The fewest that give an interval: if they do not fit, none is begun."""
NARROW = 0.01
"""Half-width of the interval, as a share, below which more pairs are of no use."""
SURE = 5
"""Pairs from which a narrow interval ends the measurement: fewer are narrow by luck too often, and what
stops by luck holds the truth too rarely."""
MOST_RESERVED = 0.4
"""Share of the budget that is kept back at most for more than the least: something is tried first."""
CAUTION = 1.15
"""Factor on what is kept back: a machine that others use is slower at times."""


# Pairs


@dataclass(frozen=True)
class Visited:
    """One side in one fresh process.

    Attributes:
        figure: what the goal looks at, less is better. seconds: of its steps, calls or blocks.
        rate: samples, items or answers per second. peak: bytes; None or 0: unknown.
    """

    figure: float
    seconds: list[float]
    rate: float
    peak: int | None = None


Pair = tuple[Visited, Visited]
"""As it is, and the final set."""


def in_turns(number: int, visit: Callable[[int], Visited]) -> Pair:
    """A pair whose sides run one after the other; the final one (1) goes first in every second pair."""
    seen = {at: visit(at) for at in ((0, 1) if number % 2 == 0 else (1, 0))}
    return seen[0], seen[1]


def measured_pairs(
    visit: Callable[[int], Pair],
    *,
    most: int,
    elapsed: Callable[[], float],
    until: float,
    end: float,
    expected: float,
    is_decided: Callable[[], bool] = lambda: True,
) -> Iterator[list[Pair]]:
    """All pairs so far, after each one, until the interval is narrow, or the time is up.

    Args:
        visit: measures the pair of this number.
        most: pairs. until: second of the session at which all pairs but the fewest have to be over.
        end: second at which all of them have to be over. expected: seconds of a pair, until one was measured.
        is_decided: whether nothing but the interval is open.

    Raises:
        TrialFailed: one of the sides does not run.
    """
    pairs: list[Pair] = []
    began = elapsed()
    while len(pairs) < most:
        seconds = (elapsed() - began) / len(pairs) if pairs else expected
        more = max(1, LEAST - len(pairs))  # fewer have no interval
        if elapsed() + more * seconds > (until if len(pairs) >= FEWEST else end):
            return
        pairs.append(visit(len(pairs)))
        yield pairs
        if len(pairs) >= SURE and is_decided() and _effect(ratios(pairs)).reach(0.025) < NARROW:
            return


def ratios(pairs: Sequence[Pair]) -> list[float]:
    """Time, final over as it is, one a pair."""
    return [final.figure / baseline.figure for baseline, final in pairs]


def _effect(values: list[float]) -> Effect:
    """Of values that each come from processes of their own."""
    return from_pairs([math.log(value) for value in values])


def gain(values: list[float]) -> Speedup | None:
    """The gain that time ratios show, final over as it is, each of a pair; None below `LEAST`."""
    if len(values) < LEAST:
        return None
    measured = _effect(values)
    said = word(measured, RaceTerms(looks=(len(values),)))
    return Speedup(
        value=measured.speedup,
        ci95=measured.ci95,
        word=said if said in ("faster", "slower", "same") else "unclear",
        pairs=len(values),
        ratios=values,
    )


def speed(visits: Sequence[Visited]) -> Measured:
    """Speed of one side: geometric means over its processes, whose ratio is that of the pairs; the largest
    peak."""
    steps = [median(each.seconds) for each in visits]
    peaks = [each.peak for each in visits if each.peak]
    side = Measured(
        step=geometric_mean(steps),
        throughput=geometric_mean(each.rate for each in visits),
        processes=len(visits),
        steps=sum(len(each.seconds) for each in visits),
        samples=[each.seconds for each in visits],
        peak=max(peaks) if peaks else None,
    )
    if len(steps) < LEAST:
        return side
    scatter = _effect(steps)
    return structs.replace(side, ci95=(math.exp(scatter.lower(0.025)), math.exp(scatter.upper(0.025))))


# The budget


@dataclass(frozen=True, kw_only=True)
class FinalCost:
    """Seconds of what follows a search, if it ended now.

    Attributes:
        gate: of the final set. pair: as it is and the final set, each in a fresh process.
        check: the recipe once more, beside a patched script. record: of profiles, or of what bounds a call.
        hand_back: all files.
    """

    gate: float
    pair: float
    check: float = 0.0
    record: float = 0.0
    hand_back: float = 2.0

    @property
    def usual(self) -> float:
        """A gate, the usual pairs, and all else."""
        return self.gate + FEWEST * self.pair + self.check + self.record + self.hand_back

    @property
    def least(self) -> float:
        """A gate, and the fewest pairs that give an interval."""
        return self.bare + LEAST * self.pair

    @property
    def bare(self) -> float:
        """A gate: what a change needs to be handed back without a measured gain."""
        return self.gate + self.hand_back

    def kept_back(self, budget: float) -> float:
        """Seconds of a budget that a search leaves alone: the usual, and never less than the least."""
        return CAUTION * max(self.least, min(self.usual, MOST_RESERVED * budget / CAUTION))

    def shortfall(self, began: float, budget: float) -> Shortfall:
        """What measuring the gain afresh lacked, if it began at that second of the session."""
        needs = LEAST * self.pair + self.hand_back
        return shortfall("measurement", "the gain was not measured afresh", needs, began, budget - began)


def shortfall(
    what: Literal["race", "measurement"],
    lead: str,
    needs: float,
    began: float,
    left: float,
    more: float = 0.0,
) -> Shortfall:
    """A record of what the budget was too short for, and the budget that would do, in half minutes. needs:
    seconds, from second `began` on, when `left` were left. more: seconds of what follows it."""
    enough = 30.0 * math.ceil((began + CAUTION * (needs + more)) / 30.0)
    left = max(0.0, left)
    sentence = (
        f"{lead}: it takes about {show(needs, 's')}, and {show(left, 's')} were left; "
        f"a budget of about {enough:.0f} s would do"
    )
    return Shortfall(what=what, needs=needs, left=left, budget=enough, sentence=sentence)
