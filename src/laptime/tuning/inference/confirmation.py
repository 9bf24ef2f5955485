"""The gain of the whole: the model as it is and the final folder, measured afresh in new processes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import mean

from laptime.records.tuning import Measured, Speedup
from laptime.tuning.inference.evaluator import ModelEvaluator
from laptime.tuning.optimization import Recipe
from laptime.tuning.session import final_ab

FEWEST, MOST = 3, 9
"""Pairs of fresh processes."""
SECONDS = 1.5
"""Timed calls in a process, about."""

Sides = tuple[Measured, Measured, Speedup | None]


def confirmed(evaluator: ModelEvaluator, final: Recipe, *, until: float, noise: float) -> Iterator[Sides]:
    """Both sides and the gain after every pair, until the interval is narrow or the time is up.

    Args:
        until: second of the session after which no pair begins but the fewest.

    Raises:
        TrialFailed: one of the sides does not run.
    """
    samples: tuple[list[list[float]], list[list[float]]] = ([], [])
    peaks = [0, 0]
    while len(samples[0]) < MOST:
        number = len(samples[0])
        seconds = {}
        for at in (0, 1) if number % 2 == 0 else (1, 0):
            with evaluator.accounting.spent_on("measure"), evaluator.arm((Recipe(), final)[at]) as arm:
                calls = max(5, round(SECONDS / max(arm.call, 1e-6)))
                seconds[at] = arm.seconds(calls)
                peaks[at] = max(peaks[at], arm.peak)
        for at in (0, 1):
            samples[at].append(seconds[at])
        sides = [_speed(evaluator, samples[at], peaks[at], noise) for at in (0, 1)]
        ratios = [
            evaluator.figure(after) / evaluator.figure(before) for before, after in zip(*samples, strict=True)
        ]
        gain = final_ab.gain(ratios, noise)
        yield sides[0], sides[1], gain
        if number + 1 >= FEWEST and (evaluator.elapsed() > until or _is_narrow(gain)):
            return


def _is_narrow(gain: Speedup | None) -> bool:
    return gain is not None and math.log(gain.ci95[1] / gain.ci95[0]) < 2 * final_ab.NARROW


def _speed(evaluator: ModelEvaluator, samples: list[list[float]], peak: int, noise: float) -> Measured:
    rates = [evaluator.batch / mean(seconds) for seconds in samples]
    return final_ab.speed(samples, rates, peak, noise)
