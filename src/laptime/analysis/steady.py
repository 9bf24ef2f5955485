"""Where does warm-up end, and which levels changed too late to be one? Found as a change of level, never
assumed to be ten calls.

The series of one process is cut, again and again, at the point that best splits it into two levels (least
absolute deviations of the logarithm, so that single slow samples do not matter), as long as the levels
differ by more than noise. What comes before the last cut is not steady state.

After Barrett et al., Virtual Machine Warmup Blows Hot and Cold (OOPSLA 2017): some programs never settle,
so the kind is returned, too."""

from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np

from laptime.analysis.quantiles import Floats, effective_size, median
from laptime.analysis.student_t import t_quantile
from laptime.records.case import Case
from laptime.records.series import DISTURBED, UNSETTLED, Label, Regime, Series

Kind = Literal["flat", "warm-up", "slow-down", "unstable"]
SMALLEST_STEP = 0.03
"""Relative change of level that counts; smaller ones are drift, which widens the interval."""
FIRST = 50  # samples that may be a warm-up however few are measured: short measurements are all beginning
LATE_STEP = 0.05  # such a change of level is none that only a cache makes while it fills up
WARM_UP_SHARE = 0.1
"""Of a process's samples. A level that changes later, and was not kept nine times as long since, may change
again: a guest's CPU that flips its speed now and then looks like this."""
MOST = 0.75  # of samples, half of which lie below their median by themselves
_MIN_TAIL = 5
_SURE = 0.99997
"""Four standard errors if there are many samples, more if the noise itself is little known."""


class Steady(NamedTuple):
    """Result: samples from `start` on are steady."""

    start: int  # index of the first steady sample
    kind: Kind  # flat; warm-up (faster afterwards); slow-down (slower afterwards: heat, memory); unstable
    change: float  # level before the steady part over the level in it, minus 1; 0 when flat


def settle(samples: Floats, ignore: np.ndarray | None = None) -> Steady:
    """Find the steady part of one process's samples (seconds, in order of measuring).
    samples: shape (n,), positive. ignore: shape (n,), bool: samples with a known outside cause, which must
    not be taken for warm-up. Outside causes only slow a call down, so a level below that of the others counts
    all the same. If hardly any others are left, all count, but a slow-down may then be the outside's."""
    if len(samples) <= _MIN_TAIL:
        return Steady(0, "flat", 0.0)
    if (is_hidden := ignore is not None and bool((~ignore).sum() <= _MIN_TAIL)) or ignore is None:
        ignore = np.zeros(len(samples), dtype=bool)
    # Ignored samples of a level below the usual of the others, shape (n,); none if not most of what
    # follows the first of them lies there.
    below = samples < median(samples[~ignore]) / (1 + SMALLEST_STEP)
    since = below[np.argmax(ignore & below) :]
    positions = np.nonzero(~ignore | np.asarray(ignore & below & (since.mean() > MOST)))[0]
    x = np.log(np.maximum(samples[positions], 1e-12))
    start = 0
    while (cut := _cut(x[start:])) is not None:
        start += cut
    if start == 0:
        kind: Kind = "unstable" if _wanders(x) else "flat"
        return Steady(0, kind, 0.0)
    level = median(x[start:])
    change = float(np.expm1(median(x[:start]) - level))
    kind = "warm-up" if change > 0 else "slow-down"
    if is_hidden and kind == "slow-down":  # the outside may have done that
        return Steady(0, "flat", 0.0)
    return Steady(int(positions[start]), "unstable" if _wanders(x[start:]) else kind, change)


def late_step(samples: Floats, steady: Steady) -> float:
    """Share by which the level changed where the steady part begins, if too late for a warm-up; else 0."""
    start = steady.start
    if start <= max(FIRST, WARM_UP_SHARE * len(samples)):
        return 0.0
    near = max(5, len(samples) // 20)
    share = abs(median(samples[start - near : start]) / median(samples[start:]) - 1)
    return share if share > LATE_STEP else 0.0


def _cut(x: Floats) -> int | None:
    """Index of the best cut into two levels within the first half, or None when there is one level."""
    n = len(x)
    best, best_cost = None, np.inf
    # Cuts to try: all small ones, then geometrically spaced; never into the last half.
    last = min(n // 2, n - _MIN_TAIL)
    dense = list(range(1, min(last, 32) + 1))
    for k in dense + [k for k in sorted({int(33 * 1.15**i) for i in range(80)}) if 32 < k <= last]:
        cost = _spread(x[:k]) + _spread(x[k:])
        if cost < best_cost:
            best, best_cost = k, cost
    if best is None:
        return None
    before, after = x[:best], x[best:]
    step = abs(median(before) - median(after))
    noise = 1.4826 * median(np.abs(after - median(after)))
    # Standard error of a median is about 1.25 sigma / sqrt(n), n being what the samples are worth: where
    # the level drifts, neighbours repeat each other, and a cut through a drift is no end of a warm-up.
    # The second half shows the drift alone, since no cut falls into it.
    tail = x[n // 2 :]
    worth = effective_size(tail) / len(tail)
    error = 1.25 * noise * np.sqrt(1 / max(1.0, worth * len(before)) + 1 / (worth * len(after)))
    needed = max(np.log1p(SMALLEST_STEP), t_quantile(_SURE, len(after) - 1) * error)
    return best if step > needed else None


def _spread(x: Floats) -> float:
    """Sum of absolute deviations from the median: what the upper half has more than the lower."""
    half = len(x) // 2
    parted = np.partition(x, half)
    return float(parted[len(x) - half :].sum() - parted[:half].sum())


def _wanders(x: Floats) -> bool:
    """Whether thirds of the steady part lie on levels that differ by more than 10 % and more than noise."""
    if len(x) < 18:
        return False
    parts = np.array_split(x, 3)
    medians = [median(part) for part in parts]
    noise = max(1.4826 * median(np.abs(part - median(part))) for part in parts)
    error = 1.25 * noise * np.sqrt(6 / len(x))
    return bool(max(medians) - min(medians) > max(np.log1p(0.10), 4.0 * error))


# How each process of a series settled.


def find_timed(case: Case) -> list[Series]:
    """Latencies of single calls that have a level of their own; a queue's moves by itself."""
    timed = [series for series in case.series if series.metric.tag == "latency" and series.samples]
    return [series for series in timed if not series.calls and series.regime != Regime.PACED]


def levels(series: Series) -> Iterator[tuple[Steady, Floats]]:
    """Return how each process settled, and its samples in seconds."""
    seconds = np.asarray(series.samples)
    process = np.asarray(series.process or [0] * len(seconds))
    label = np.asarray(series.label or [0] * len(seconds), dtype=int)
    ignore = (label & int(DISTURBED | (UNSETTLED & ~Label.WARM_UP))) != 0
    for p in np.unique(process):
        yield settle(seconds[process == p], ignore[process == p]), seconds[process == p]


def largest_late_step(case: Case) -> float:
    """Share by which a level changed when it was too late for a warm-up; 0 if none did."""
    steps = [late_step(seconds, steady) for series in find_timed(case) for steady, seconds in levels(series)]
    return max(steps, default=0.0)
