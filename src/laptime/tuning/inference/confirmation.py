"""The gain of the whole: the model as it is and the final folder, measured afresh in new processes.

`final_cost` expects, from what processes have taken so far, how long that and the rest after a search takes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from statistics import median

from laptime.records.tuning import Measured, Speedup
from laptime.tuning import final_reserve
from laptime.tuning.inference.evaluator import ModelEvaluator
from laptime.tuning.inference.limits import word
from laptime.tuning.inference.setups import Setup, Visit, cost_of
from laptime.tuning.optimization import Recipe
from laptime.tuning.session import final_ab
from laptime.verbs.bench.instances import room

FEWEST, MOST = 3, 9
"""Pairs of fresh processes."""
LEAST = final_ab.LEAST
"""Of them: where not even these fit, none is begun."""
SECONDS = 1.5
"""Timed calls in a process, about."""
LONGEST = 20.0
"""Timed calls in a process at most, where the quantile of an SLO asks for many."""

Sides = tuple[Measured, Measured, Speedup | None]


def confirmed(
    evaluator: ModelEvaluator,
    final: Recipe,
    setup: Setup,
    *,
    until: float,
    noise: float,
    end: float = math.inf,
    expected: float = 0.0,
) -> Iterator[Sides]:
    """Both sides and the gain after every pair, until the interval is narrow and the limits are decided, or
    the time is up.

    Args:
        setup: of the final set; the model as it is runs once.
        until: second of the session after which no pair begins but the fewest. end: second at which all have
            to be over. expected: seconds of a pair, until one was measured.

    Raises:
        TrialFailed: one of the sides does not run.
    """
    sides = ((Recipe(), Setup(batch=evaluator.batch)), (final, setup))
    visits: tuple[list[Visit], list[Visit]] = ([], [])
    began = evaluator.elapsed()
    while len(visits[0]) < MOST:
        number = len(visits[0])
        seconds = (evaluator.elapsed() - began) / number if number else expected
        if evaluator.elapsed() + max(1, LEAST - number) * seconds > end:
            return
        for at in (0, 1) if number % 2 == 0 else (1, 0):
            with evaluator.accounting.spent_on("measure"), evaluator.fleet(*sides[at]) as fleet:
                visits[at].append(fleet.visit(timed_seconds(evaluator, fleet.call, is_final=at == 1)))
        figures = [
            [_figure(evaluator, visit, side[1]) for visit in made]
            for made, side in zip(visits, sides, strict=True)
        ]
        gain = final_ab.gain([after / before for before, after in zip(*figures, strict=True)], noise)
        yield _speed(visits[0], noise), _speed(visits[1], noise), gain
        is_decided = _knows_limits(evaluator, visits[1]) and _is_narrow(gain)
        if number + 1 >= FEWEST and (evaluator.elapsed() > until or is_decided):
            return


def timed_seconds(evaluator: ModelEvaluator, call: float, *, is_final: bool) -> float:
    """Seconds of a process; the final side is timed long enough for the quantile of an SLO."""
    of_quantile = min(1.5 * evaluator.limits.calls * call / FEWEST, LONGEST) if is_final else 0.0
    return max(SECONDS, 5 * call, of_quantile)


def _figure(evaluator: ModelEvaluator, visit: Visit, setup: Setup) -> float:
    """What the goal looks at, less is better: the median call, or what an item costs."""
    if evaluator.request.goal == "latency":
        return median(visit.seconds)
    return cost_of(evaluator.request.goal, room())(setup) / visit.rate


def _knows_limits(evaluator: ModelEvaluator, visits: list[Visit]) -> bool:
    """Whether it is known if the limits are kept."""
    seconds = list(chain.from_iterable(each.seconds for each in visits))
    return word(evaluator.limits.checks(seconds, max(each.peak for each in visits))) != "unknown"


def _is_narrow(gain: Speedup | None) -> bool:
    return gain is not None and math.log(gain.ci95[1] / gain.ci95[0]) < 2 * final_ab.NARROW


def _speed(visits: list[Visit], noise: float) -> Measured:
    seconds = [list(visit.seconds) for visit in visits]
    return final_ab.speed(seconds, [visit.rate for visit in visits], max(each.peak for each in visits), noise)


HAND_BACK = 3.0
"""Seconds that copying the folder and the end of the session take, about."""


@dataclass(frozen=True, kw_only=True)
class FinalCost:
    """Seconds of what follows a search.

    Attributes:
        gate: outputs of the final set. pair: the model as it is and the final folder, in fresh processes.
        record: what bounds a call. hand_back: the folder.
    """

    gate: float
    pair: float
    record: float = 0.0
    hand_back: float = HAND_BACK

    @property
    def usual(self) -> float:
        """The gate, the usual pairs, the record."""
        return self.gate + FEWEST * self.pair + self.record + self.hand_back

    @property
    def least(self) -> float:
        """The gate, and the fewest pairs that give an interval."""
        return self.gate + LEAST * self.pair + self.hand_back

    def kept_back(self, budget: float) -> float:
        """Seconds of a budget that a search leaves alone: the usual, and never less than the least."""
        return final_reserve.kept_back(self.usual, self.least, budget)


def final_cost(
    ready: tuple[float, float], timed: tuple[float, float], *, record: float = 0.0, is_gated: bool = False
) -> FinalCost:
    """What follows, if the search ended now.

    Args:
        ready: seconds until a process of the model as it is, and of the final folder, can be called.
        timed: seconds of calls of each. record: of what bounds a call. is_gated: the outputs are known.
    """
    return FinalCost(
        gate=0.0 if is_gated else ready[1] + timed[1], pair=sum(ready) + sum(timed), record=record
    )
