"""Interval of a quantile of calls whose level shifts: between blocks, between processes.

`quantiles.interval` counts independent samples. Ten thousand calls of a millisecond from six processes that
differ by a few percent are worth about six by that count, and their p99 has no interval, although it plainly
lies far below 20 ms. Where there are so many calls, the level and the scatter about it are judged apart:
batches of calls in a row have a median each; the interval is that of the quantile of calls over the median of
their batch, widened by where the level of one more batch would lie (a prediction interval of Student's t on
logarithms; Hahn & Meeker, Statistical Intervals, 4.7). It is wider than it has to be, but narrow enough
to say that a limit is far."""

import math

import numpy as np

from laptime.analysis import quantiles
from laptime.analysis.quantiles import Floats
from laptime.analysis.student_t import t_quantile

BATCHES = 40
FEWEST, BEYOND = 2000, 30
"""Samples, and samples beyond the quantile, below which the wider interval is unknown, too."""
LEVELS = 3
"""Independent levels that batches count for at least. With so few, Student's t reaches seven deviations for a
p99: wide enough for a machine whose clock changed once while it was measured."""


def interval(samples: Floats, q: float) -> tuple[float, float] | None:
    """Interval of the q-quantile in the samples' unit: the usual one, or where they are worth too few for it
    that of shifting levels.
    samples: above 0, in the order of time. Returns none if the samples support neither."""
    if not len(samples):
        return None
    independent = quantiles.effective_size(samples, q)
    usual = quantiles.interval(samples, q, effective=independent)
    if usual is not None and independent >= quantiles.FEWEST_INDEPENDENT:
        return usual
    return _wide(samples, q) or usual


def _wide(samples: Floats, q: float) -> tuple[float, float] | None:
    n = len(samples)
    if n < FEWEST or min(q, 1 - q) * n < BEYOND:
        return None
    batches = samples[n % BATCHES :].reshape(BATCHES, -1)
    levels = np.median(batches, axis=1)
    scatter = quantiles.interval((batches / levels[:, None]).ravel(), q)
    logs = np.log(levels)
    independent = max(float(LEVELS), quantiles.effective_size_of_mean(logs))
    if scatter is None:
        return None
    chance = max(q, 1 - q, (1 + quantiles.LEVEL) / 2)
    reach = t_quantile(chance, independent - 1) * float(logs.std(ddof=1)) * math.sqrt(1 + 1 / independent)
    middle = float(logs.mean())
    return scatter[0] * math.exp(middle - reach), scatter[1] * math.exp(middle + reach)
