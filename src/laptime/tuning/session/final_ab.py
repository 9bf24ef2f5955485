"""The gain of the whole: baseline and final measured afresh in new processes, side by side. No other number
is the gain."""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import mean, median

from msgspec import structs

from laptime.analysis.paired import Effect, from_few_rounds
from laptime.records.tuning import Convergence, Measured, Speedup
from laptime.tuning.gates import convergence
from laptime.tuning.loop_profile import UNKNOWN_NOISE
from laptime.tuning.optimization import Recipe
from laptime.tuning.search.race import RaceTerms, word
from laptime.tuning.session.trial_runner import SETTLED, Pair, Side, TrialRunner, settled

FEWEST, MOST = 3, 7
"""Pairs of fresh processes. Three give an interval; seven are enough for one of 1 % on a quiet machine."""
LEAST = 2
NARROW = 0.01
"""Half-width of the interval, as a share, at which more pairs are no use."""
LONG = 4.0
"""Seconds of timed steps in a process, about."""


def pairs(
    runner: TrialRunner,
    final: Recipe,
    *,
    until: float,
    end: float,
    noise: float,
    sources: dict[str, str] | None = None,
    fewest: int = FEWEST,
    most: int = MOST,
) -> Iterator[list[Pair]]:
    """All pairs so far, after each one, until the interval is narrow or the time is up.

    Args:
        until: second of the session after which none but the fewest pairs is begun. end: of the budget; two
            pairs, the least that give an interval, are measured beyond it, and no more.
        noise: standard deviation of a round of the script against itself; 0: unknown.
        sources: files in place of the user's on the final side, which then has no recipe: a patched script.

    Raises:
        TrialFailed: one of the sides does not run.
    """
    found: list[Pair] = []
    began = runner.elapsed()
    while len(found) < most:
        each = (runner.elapsed() - began) / len(found) if found else 0.0
        needed = until if len(found) >= fewest else end
        if len(found) >= LEAST and runner.elapsed() + each > needed:
            return
        found.append(runner.pair(Recipe(), final, len(found), sources=sources, seconds=LONG))
        yield found
        if len(found) >= fewest and _half_width(effect(found, noise)) < NARROW:
            return


def cost(start: float, step: float) -> float:
    """Seconds of one side, about: to the end of its first step, steps that do not count, those that do."""
    return start + settled(step, SETTLED) * step + max(2 * step, LONG)


def _half_width(measured: Effect | None) -> float:
    return measured.reach(0.025) if measured else math.inf


def effect(pairs: list[Pair], noise: float) -> Effect | None:
    """Log ratio, final over baseline; None below two pairs."""
    return _effect([pair.ratio for pair in pairs], noise) if len(pairs) >= 2 else None


def _effect(ratios: list[float], noise: float) -> Effect:
    """Each ratio has a pair of processes of its own."""
    logs = [math.log(ratio) for ratio in ratios]
    return from_few_rounds(logs, range(len(logs)), noise or UNKNOWN_NOISE)


def speedup(found: list[Pair], noise: float) -> Speedup | None:
    """What the pairs say; None below two of them."""
    effected = effect(found, noise)
    if effected is None:
        return None
    said = word(effected, RaceTerms(looks=(len(found),)))
    return Speedup(
        value=effected.speedup,
        ci95=effected.ci95,
        word=said if said in ("faster", "slower", "same") else "unclear",
        pairs=len(found),
        ratios=[pair.ratio for pair in found],
    )


def measured(sides: list[Side], noise: float) -> Measured:
    """Speed of one side in its fresh processes."""
    steps = [median(side.seconds) for side in sides]
    rates = [1.0 / side.per_sample for side in sides]
    peaks = [side.ended.peak for side in sides if side.ended.peak]
    found = Measured(
        step=median(steps),
        throughput=median(rates),
        processes=len(sides),
        steps=sum(len(side.seconds) for side in sides),
        samples=[side.seconds for side in sides],
        peak=max(peaks) if peaks else None,
    )
    if len(steps) < 2:
        return found
    scatter = _effect(steps, noise)
    ends = math.exp(scatter.lower(0.025)), math.exp(scatter.upper(0.025))
    return structs.replace(found, ci95=ends)


def trains_as_well(found: list[Pair], numerics: str) -> Convergence:
    """Losses of the pairs, which share their seed and their data: a free, short look at convergence."""
    if numerics == "exact" or not found:
        return Convergence()
    before = [pair.baseline.losses for pair in found]
    allowed = convergence.margin(before)  # said before the other side is looked at
    return convergence.judged(before, [pair.final.losses for pair in found], allowed)


def same_losses(found: list[Pair], recipe: list[Side]) -> bool | None:
    """Whether the patched script's losses are those of the recipe's own runs, seed by seed; None: not
    comparable."""
    compared = [
        (a, b)
        for pair, side in zip(found, recipe, strict=False)
        for a, b in zip(pair.final.losses, side.losses, strict=False)
    ]
    if not compared:
        return None
    scale = mean(abs(b) for _, b in compared) or 1.0
    return all(abs(a - b) <= 1e-3 * scale for a, b in compared)
