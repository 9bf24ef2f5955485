"""The gain of the whole: the model as it is and the final folder, measured afresh in new processes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain
from statistics import mean

from laptime.records.tuning import Measured, Speedup
from laptime.tuning.inference.evaluator import ModelEvaluator
from laptime.tuning.inference.limits import word
from laptime.tuning.optimization import Recipe
from laptime.tuning.session import final_ab

FEWEST, MOST = 3, 9
"""Pairs of fresh processes."""
SECONDS = 1.5
"""Timed calls in a process, about."""
LONGEST = 20.0
"""Timed calls in a process at most, where the quantile of an SLO asks for many."""

Sides = tuple[Measured, Measured, Speedup | None]


def confirmed(evaluator: ModelEvaluator, final: Recipe, *, until: float, noise: float) -> Iterator[Sides]:
    """Both sides and the gain after every pair, until the interval is narrow and the limits are decided, or
    the time is up.

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
                calls = _calls(evaluator, max(arm.call, 1e-6))
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
        is_decided = word(evaluator.limits.checks(list(chain(*samples[1])), peaks[1])) != "unknown"
        if number + 1 >= FEWEST and (evaluator.elapsed() > until or (is_decided and _is_narrow(gain))):
            return


def _calls(evaluator: ModelEvaluator, call: float) -> int:
    """Calls in a process: those of the fewest processes together suffice for the quantile of an SLO."""
    wanted = min(1.5 * evaluator.limits.calls / FEWEST, LONGEST / call)
    return max(5, round(SECONDS / call), round(wanted))


def _is_narrow(gain: Speedup | None) -> bool:
    return gain is not None and math.log(gain.ci95[1] / gain.ci95[0]) < 2 * final_ab.NARROW


def _speed(evaluator: ModelEvaluator, samples: list[list[float]], peak: int, noise: float) -> Measured:
    rates = [evaluator.batch / mean(seconds) for seconds in samples]
    return final_ab.speed(samples, rates, peak, noise)
