"""Which batch sizes of those that fit are measured, and for how long.

All powers of two and the largest that fits: one quick call of each says nothing sure about where throughput
stops growing, so it does not decide what is measured. It does tell what a size costs, and where the time does
not suffice for all, the dearest are left out, and the finding says which.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

USUAL_SEARCH = 60.0
"""Seconds that a search may take where nobody set a budget."""

SEARCH_SHARE = 0.5
"""Of a budget that was set: the rest is for measuring, with all that the search has not used."""

ROUNDS = 6
"""Of all sizes, at least: fewer say nothing about how they compare."""

CALLS = 3
"""That a size takes in a round where calls are long: one to warm up, one alone, one of those back to back."""

LONGEST = 60.0
"""Seconds that long calls may extend the usual time to."""


class Curve(NamedTuple):
    """Result.

    Attributes:
        batches: sizes to measure, ascending. left_out: what fits, too, but takes too long.
        seconds: to measure them. needed: what all of them would take at least.
    """

    batches: list[int]
    left_out: list[int]
    seconds: float
    needed: float


def search_seconds(budget: float | None) -> float:
    """What a search may take of this budget for everything."""
    return USUAL_SEARCH if budget is None else SEARCH_SHARE * budget


def curve(
    seconds: Mapping[int, float], *, left: float | None = None, usual: float = 4.0, times: int = 1
) -> Curve:
    """Choose.

    Args:
        seconds: of one call, for every size that fits.
        left: of the budget that was set; None when none was.
        usual: measuring time of one size, all variants and processes together.
        times: variants times processes.
    """
    largest = max(seconds)
    sizes = [size for size in sorted(seconds) if size & (size - 1) == 0 or size == largest]
    round_of = {size: times * CALLS * seconds[size] for size in sizes}
    needed = ROUNDS * sum(round_of.values())
    chosen = list(sizes)
    while True:
        least = ROUNDS * sum(round_of[size] for size in chosen)
        time = left if left is not None else max(usual * len(chosen), min(least, LONGEST))
        if least <= time or len(chosen) == 1:
            return Curve(chosen, [size for size in sizes if size not in chosen], time, needed)
        chosen.remove(max(chosen, key=lambda size: round_of[size]))


def minutes(seconds: float) -> str:
    """A budget of at least so long, as it is typed."""
    return f"{max(1, math.ceil(seconds / 60))}m"
