"""The gain of the whole: baseline and final measured afresh, side by side in new processes.

No other number is called the gain.
"""

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
from laptime.tuning.session.trial_runner import SETTLED, TimedTrial, TrialPair, TrialRunner, settled

FEWEST, MOST = 3, 7
"""Pairs of fresh processes. Three give an interval; seven are enough for one of 1 % on a quiet machine."""
LEAST = 2
"""The least that give an interval: where they do not fit, none is begun."""
NARROW = 0.01
"""Half-width of the interval, as a share, below which more pairs are of no use."""
LONG, LONG_SHARE = 4.0, 1 / 60
"""Seconds of timed steps in a process, about, and their share of the budget, at most."""
SAME_LOSS = 1e-3
"""Largest difference of two losses that are called the same, as a share of their size."""


def pairs(
    runner: TrialRunner,
    final: Recipe,
    *,
    until: float,
    end: float,
    budget: float,
    noise: float,
    expected: float = 0.0,
    sources: dict[str, str] | None = None,
) -> Iterator[list[TrialPair]]:
    """All pairs so far, after each one, until the interval is narrow or the time is up.

    Args:
        until: second of the session after which no pair begins but the fewest. end: second at which all of
            them have to be over. budget: of the session. expected: seconds of a pair, until one was measured.
        noise: standard deviation of a round of the script against itself; 0: unknown.
        sources: files in place of the user's on the final side, which then has no recipe: a patched script.

    Raises:
        TrialFailed: one of the sides does not run.
    """
    measured: list[TrialPair] = []
    began = runner.elapsed()
    while len(measured) < MOST:
        seconds = (runner.elapsed() - began) / len(measured) if measured else expected
        limit = until if len(measured) >= FEWEST else end
        more = max(1, LEAST - len(measured))  # one alone would tell nothing
        if runner.elapsed() + more * seconds > limit:
            return
        seed, seconds = len(measured), timed_seconds(budget)
        measured.append(runner.pair(Recipe(), final, seed, sources=sources, seconds=seconds))
        yield measured
        shown = effect(measured, noise)
        if len(measured) >= FEWEST and shown is not None and shown.reach(0.025) < NARROW:
            return


def timed_seconds(budget: float) -> float:
    """Seconds of timed steps in a process of a session with this budget, about."""
    return min(LONG, LONG_SHARE * budget)


def cost(start: float, step: float, budget: float) -> float:
    """Seconds of one side, about: to the end of its first step, steps that do not count, those that do."""
    return start + settled(step, SETTLED) * step + max(2 * step, timed_seconds(budget))


def effect(pairs: list[TrialPair], noise: float) -> Effect | None:
    """Log ratio, final over baseline; None below two pairs."""
    return _effect([pair.ratio for pair in pairs], noise) if len(pairs) >= 2 else None


def _effect(values: list[float], noise: float) -> Effect:
    """Of the logs of values that each come from processes of their own."""
    logs = [math.log(value) for value in values]
    return from_few_rounds(logs, range(len(logs)), noise or UNKNOWN_NOISE)


def speedup(pairs: list[TrialPair], noise: float) -> Speedup | None:
    """The gain that the pairs show; None below two of them."""
    return gain([pair.ratio for pair in pairs], noise)


def gain(ratios: list[float], noise: float) -> Speedup | None:
    """The gain that time ratios show, final over baseline, each of a pair of processes; None below two."""
    if len(ratios) < 2:
        return None
    measured = _effect(ratios, noise)
    said = word(measured, RaceTerms(looks=(len(ratios),)))
    return Speedup(
        value=measured.speedup,
        ci95=measured.ci95,
        word=said if said in ("faster", "slower", "same") else "unclear",
        pairs=len(ratios),
        ratios=ratios,
    )


def measured(sides: list[TimedTrial], noise: float) -> Measured:
    """Speed of one side in its fresh processes."""
    peaks = [side.result.peak for side in sides if side.result.peak]
    rates = [1.0 / side.per_sample for side in sides]
    return speed([side.seconds for side in sides], rates, max(peaks) if peaks else None, noise)


def speed(samples: list[list[float]], rates: list[float], peak: int | None, noise: float) -> Measured:
    """Speed of one side: seconds of its steps and samples per second, by process; peak in bytes."""
    steps = [median(seconds) for seconds in samples]
    side = Measured(
        step=median(steps),
        throughput=median(rates),
        processes=len(samples),
        steps=sum(map(len, samples)),
        samples=samples,
        peak=peak,
    )
    if len(steps) < 2:
        return side
    scatter = _effect(steps, noise)
    return structs.replace(side, ci95=(math.exp(scatter.lower(0.025)), math.exp(scatter.upper(0.025))))


def convergence_of(pairs: list[TrialPair], numerics: str) -> Convergence:
    """A free, short look at convergence: the losses of the pairs, which share their seeds and data."""
    if numerics == "exact" or not pairs:
        return Convergence()
    before = [pair.baseline.losses for pair in pairs]
    allowed = convergence.margin(before)  # fixed before the other side is looked at
    return convergence.judged(before, [pair.final.losses for pair in pairs], allowed)


def same_losses(pairs: list[TrialPair], recipe: list[TimedTrial]) -> bool | None:
    """Whether the patched script's losses are those of the recipe, seed by seed; None: not comparable."""
    losses = [
        (patched, original)
        for pair, side in zip(pairs, recipe, strict=False)
        for patched, original in zip(pair.final.losses, side.losses, strict=False)
    ]
    if not losses:
        return None
    scale = mean(abs(original) for _, original in losses) or 1.0
    return all(abs(patched - original) <= SAME_LOSS * scale for patched, original in losses)
