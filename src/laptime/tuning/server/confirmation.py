"""The gain of the whole: the server as it is and with the final flags, measured afresh after new starts."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import fmean

from laptime.records.case import Case
from laptime.records.tuning import GateCheck, Measured, Speedup
from laptime.tuning.inference.limits import word
from laptime.tuning.optimization import Recipe
from laptime.tuning.search.evaluator import TrialFailed
from laptime.tuning.server.evaluator import GENERATOR, ServerEvaluator, built
from laptime.tuning.server.figure import limits, rate
from laptime.tuning.session import final_ab

FEWEST, MOST = 3, 9
"""Pairs of starts."""
BLOCKS = 3
"""Blocks of load of each start."""


@dataclass
class Side:
    """One side after some starts.

    Attributes:
        figures: of its blocks, a list a start. cases: its blocks.
    """

    recipe: Recipe
    figures: list[list[float]] = field(default_factory=list)
    cases: list[Case] = field(default_factory=list)

    def visit(self, evaluator: ServerEvaluator, numbers: list[int]) -> None:
        """Start it and load it.

        Raises:
            TrialFailed: it does not run, or no block can be used.
        """
        known = evaluator.cases[built(self.recipe)]
        before = len(known)
        with evaluator.accounting.spent_on("measure"):
            figures = [each for each in evaluator.measured(self.recipe, numbers) if math.isfinite(each)]
        if not figures:
            raise TrialFailed("refused", GENERATOR)
        self.figures.append(figures)
        self.cases += known[before:]

    def measured(self, noise: float) -> Measured:
        """Its speed: seconds of the figure, and what is answered per second."""
        rates, at = [], 0
        for figures in self.figures:
            rates.append(fmean(rate(case) for case in self.cases[at : at + len(figures)]))
            at += len(figures)
        return final_ab.speed(self.figures, rates, None, noise)


Sides = tuple[Measured, Measured, Speedup | None, list[GateCheck]]


def confirmed(evaluator: ServerEvaluator, final: Recipe, *, until: float, noise: float) -> Iterator[Sides]:
    """Both sides, the gain, and whether the final one keeps the promise, after every pair of starts.

    Nothing of it had a part in choosing the flags. It ends when the interval is narrow and the promise is
    decided, or the time is up.

    Args:
        until: second of the session at which no pair ends but the fewest. noise: of a round.

    Raises:
        TrialFailed: one of the sides does not run.
    """
    sides, began = (Side(Recipe()), Side(final)), evaluator.elapsed()
    while len(sides[0].figures) < MOST:
        pair = len(sides[0].figures)
        each = (evaluator.elapsed() - began) / max(1, pair)
        if pair >= FEWEST and evaluator.elapsed() + each > until:
            return
        numbers = evaluator.numbers(BLOCKS)
        for at in (0, 1) if pair % 2 == 0 else (1, 0):
            sides[at].visit(evaluator, numbers)
        ratios = [
            fmean(after) / fmean(before)
            for before, after in zip(sides[0].figures, sides[1].figures, strict=True)
        ]
        gain = final_ab.gain(ratios, noise)
        checks = limits(evaluator.request.slo, sides[1].cases)
        yield sides[0].measured(noise), sides[1].measured(noise), gain, checks
        if pair + 1 >= FEWEST and word(checks) != "unknown" and _is_narrow(gain):
            return


def _is_narrow(gain: Speedup | None) -> bool:
    return gain is not None and math.log(gain.ci95[1] / gain.ci95[0]) < 2 * final_ab.NARROW
