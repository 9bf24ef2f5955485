"""Intervals of requests that wait for each other, by means of batches in order of arrival."""

import math

import numpy as np

from laptime.analysis import quantiles
from laptime.analysis.quantiles import LEVEL, Floats, effective_size, effective_size_of_mean
from laptime.analysis.student_t import t_quantile

_FOREVER = 1e12
MARGIN = 1.25
"""Intervals are wider by this: what batch means say of a queue that is busy for 80 % of its time and was seen
for 60 to 240 times its memory covers in 85 to 94 of 100 runs (M/M/1, measured), and 95 are promised."""
DOUBT, MOST_DOUBT, MOST_FURTHER = 8.0, 2.0, 3.0
"""Over the root of the independent requests: the upper end is further up by so much, in the logarithm."""
MOST, FEWEST = 40, 8  # Batches: as many as have means that do not follow each other, but not fewer than these


def batch_means(values: Floats) -> Floats | None:
    """Means of the most batches whose neighbours are not alike; None below two values a batch."""
    means: Floats | None = None
    for count in range(MOST, FEWEST - 1, -4):
        size = len(values) // count
        if size < 2:
            continue
        means = values[len(values) - size * count :].reshape(count, size).mean(axis=1)
        # Correlation of each mean with the next; 0 if they do not differ.
        centred = means - means.mean()
        variance = float(centred @ centred)
        correlation = float(centred[1:] @ centred[:-1]) / variance if variance > 0 else 0.0
        if correlation < 1.2 / math.sqrt(count):
            return means
    return means


def mean_interval(values: Floats, level: float = LEVEL) -> tuple[float, float] | None:
    """Interval of the mean; None if there are too few values. The wider of batch means and what the
    values' correlation tells."""
    means = batch_means(values)
    if means is None:
        return None
    half = t_quantile((1 + level) / 2, len(means) - 1) * float(means.std(ddof=1)) / math.sqrt(len(means))
    middle = float(values.mean())
    other = quantiles.mean_interval(values, level=level) or (middle, middle)
    low, high = min(middle - half, other[0]), max(middle + half, other[1])
    return max(0.0, middle - MARGIN * (middle - low)), middle + MARGIN * (high - middle)


def worth(values: Floats, q: float) -> float:
    """So many independent values tell as much about the q-quantile as these.

    The share below the quantile has the variance q(1 - q)/n of independent values; what the means of batches
    show instead says how many these are worth. Few batches know that badly, which makes it less; and no tail
    is known better than the mean: one that shows no memory has had too few busy spells to show it."""
    below = (values <= np.quantile(values, q, method="lower")).astype(float)
    means = batch_means(below)
    if means is None:
        return 0.0
    variance = float(means.var(ddof=1)) / len(means)
    share = float(below.mean())
    alone = share * (1 - share) / variance if variance > 0 else float(len(values))
    doubt = (1.96 / t_quantile(0.975, len(means) - 1) / MARGIN) ** 2
    finite = values[np.isfinite(values)]
    return min(
        float(len(values)),
        alone * doubt,
        effective_size(np.minimum(values, _FOREVER), q),
        effective_size_of_mean(finite),
    )


def quantile_interval(values: Floats, q: float, level: float = LEVEL) -> tuple[float, float] | None:
    """Interval of the q-quantile; None if these values cannot support one. Infinite ones are failures."""
    if not len(values):
        return None
    known = worth(values, q)
    if q > 0.5 and known < find_needed(q, known / len(values), level):
        return None
    ends = quantiles.interval(values, q, effective=known, level=level)
    return ends and upwards(
        float(np.quantile(values, q, method="higher")), ends, known / len(values), len(values)
    )


def find_needed(q: float, alone: float, level: float = LEVEL) -> int:
    """Independent values that tell the q-quantile: twice as many of values that mostly repeat each other,
    since the levels that seem to have just enough are those that saw too few busy spells.
    alone: share of the values that are worth as independent ones."""
    return math.ceil(quantiles.samples_needed(q, level) * (2 - min(1.0, alone)))


def upwards(value: float, ends: tuple[float, float], alone: float, n: int) -> tuple[float, float]:
    """An interval with its upper end further up, for times in a queue.

    What a queue does rarely and for long is missing if few busy spells were seen, and then the requests
    look more alone than they are: every interval that misses is too low (21 queues of 10 to 240 s, measured).

    value: inside the interval. alone: share of the `n` values that are worth as independent ones."""
    low, high = ends
    if not 0 < value < high < math.inf:
        return ends
    doubt = min(MOST_DOUBT, DOUBT / math.sqrt(max(1.0, alone * n))) * max(0.0, 1 - alone)
    return low, high * min(MOST_FURTHER, float((high / value) ** doubt))
