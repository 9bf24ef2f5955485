"""Distribution-free intervals for quantiles of timings that are not independent.

The interval of a quantile comes from order statistics: of n independent samples, the number below the
q-quantile is Binomial(n, q), whatever the distribution (David & Nagaraja, Order Statistics, 7.1).
Timings of one process are autocorrelated, so n is replaced by the effective number of samples, from the
autocorrelation of the indicator `sample <= quantile` (initial positive sequence, Geyer 1992)."""

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from laptime.analysis.student_t import t_quantile
from laptime.kit.text import count
from laptime.records.quantity import Quantity

Floats = NDArray[np.float64]
LEVEL = 0.95
BATCHES = 20
NOTHING = 1.1  # a correlation time that samples which do not repeat each other show by chance
ALIKE = 1e-3  # share of the median within which the order of samples is that of the clock's last digits
FEWEST_INDEPENDENT = 10
"""Of many samples that are worth fewer independent ones than this, an interval covers too rarely."""
_NORMAL = NormalDist()


@lru_cache(maxsize=4096)
def ranks(n: int, q: float, level: float = LEVEL) -> tuple[int, int] | None:
    """1-based ranks (r, s) of the order statistics that enclose the q-quantile at this level.

    P(X_(r) <= quantile <= X_(s)) = P(r <= Binomial(n, q) <= s - 1) >= level. The two tails are kept at most
    (1 - level) / 2 each. None when n is too small for both ends to exist."""
    tail = (1 - level) / 2
    if n < 1:
        return None
    if n > 5000:
        spread = _NORMAL.inv_cdf(1 - tail) * math.sqrt(n * q * (1 - q))
        low, high = math.floor(n * q - spread), math.ceil(n * q + spread) + 1
    else:
        k = np.arange(n + 1)
        log_factorial = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, n + 1)))])
        log_choose = log_factorial[n] - log_factorial[k] - log_factorial[n - k]
        # below[k] = P(B <= k)
        below = np.cumsum(np.exp(log_choose + k * math.log(q) + (n - k) * math.log1p(-q)))
        low = int(np.searchsorted(below, tail, side="right"))  # P(B < low) <= tail
        high = int(np.searchsorted(below, 1 - tail, side="left")) + 1  # P(B >= high) <= tail
    return (low, high) if low >= 1 and high <= n else None


@lru_cache(maxsize=64)
def samples_needed(q: float, level: float = LEVEL) -> int:
    """Smallest number of independent samples for which a two-sided interval of the q-quantile exists.

    72 for p95 and 368 for p99 at 95 %."""
    tail = (1 - level) / 2
    extreme = max(q, 1 - q)
    n = max(1, math.floor(math.log(tail) / math.log(extreme)) - 2)
    while ranks(n, q, level) is None:
        n += 1
    return n


def effective_size(samples: Floats, q: float = 0.5) -> float:
    """Return how many independent samples these are worth for the q-quantile; between 1 and len(samples)."""
    n = len(samples)
    if n < 8:
        return float(n)
    ordered = np.sort(samples)
    low, middle, high = (quantile_of_ordered(ordered, at) for at in (0.25, 0.5, 0.75))
    # Few samples in a tail hide how they follow each other; the middle shows it, unless it is all alike.
    places = {q, 0.5} if high - low > ALIKE * middle else {q}
    below = [samples <= quantile_of_ordered(ordered, at) for at in places]
    return _worth(n, max(_correlation_time_below(marks.tobytes()) for marks in below))


def effective_size_of_mean(samples: Floats) -> float:
    """The same for the mean: of the values or of their order, whichever repeats itself longer.

    Single slow samples hide how the others follow each other, and the order alone knows nothing of how far
    apart they lie."""
    n = len(samples)
    if n < 8:
        return float(n)
    order = (samples <= median(samples)).tobytes()
    return _worth(n, max(_correlation_time(samples), _correlation_time_below(order)))


def _worth(n: int, time: float) -> float:
    """Independent samples that n with this correlation time tell as much as.

    What a series shows of a long memory is less than it has: by about twice the share that its correlation
    time has of it (Marriott & Pope, Bias in the Estimation of Autocorrelations, 1954)."""
    return float(n) if time < NOTHING else max(1.0, n / time * (1 - 2 * min(0.4, time / n)))


@lru_cache(maxsize=32)
def _correlation_time_below(marks: bytes) -> float:
    """The same of whether samples lie below a level, a byte each: every number asks for the median's."""
    return _correlation_time(np.frombuffer(marks, dtype=bool).astype(float))


def _correlation_time(x: Floats) -> float:
    """Samples that tell as much as one independent one, from 1 on; 1 for a series that never changes."""
    n = len(x)
    centred = x - (mean := float(x.sum()) / n)
    if (variance := float(centred @ centred)) <= 1e-18 * n * mean**2:
        return 1.0
    if n <= 256:  # 40 products of rows take 2 us, two Fourier transforms 70
        rho = np.correlate(centred, centred, "full")[n - 1 :][: n // 2] / variance
    else:
        spectrum = np.fft.rfft(centred, size := 1 << (2 * n - 1).bit_length())
        rho = np.fft.irfft(spectrum * np.conj(spectrum), size)[: n // 2] / variance
    # Geyer: sums of neighbouring autocorrelations are positive in theory; stop where noise takes over.
    pairs = rho[1 : len(rho) - 1 : 2] + rho[2 : len(rho) : 2] if len(rho) > 2 else np.array([])
    negative = np.nonzero(pairs <= 0)[0]
    stop = int(negative[0]) if len(negative) else len(pairs)
    return float(min(n, max(1.0, 1.0 + 2.0 * float(pairs[:stop].sum()))))


def quantile(samples: Floats, q: float) -> float:
    """The q-quantile, interpolated between order statistics (Hyndman & Fan type 7)."""
    return quantile_of_ordered(np.sort(samples), q)


def quantile_of_ordered(ordered: Floats, q: float) -> float:
    """The same of samples in ascending order: `np.quantile` to the last bit, in a tenth of its time.

    It is asked for hundreds of times between the rounds of a measurement. NaN is the last of an order, and
    makes every quantile NaN."""
    if math.isnan(ordered[-1]):
        return math.nan
    place = q * (len(ordered) - 1)
    first = math.floor(place)
    share = place - first
    low, high = float(ordered[first]), float(ordered[min(first + 1, len(ordered) - 1)])
    return high - (high - low) * (1 - share) if share >= 0.5 else low + (high - low) * share


def median(samples: Floats) -> float:
    """`np.median` of samples in a row, likewise."""
    ordered, half = np.sort(samples), len(samples) // 2
    if math.isnan(ordered[-1]):
        return math.nan
    return (float(ordered[half]) + float(ordered[half if len(ordered) % 2 else half - 1])) / 2


def interval(
    samples: Floats, q: float, *, effective: float | None = None, level: float = LEVEL
) -> tuple[float, float] | None:
    """Interval of the q-quantile in the samples' unit; None when the sample cannot support one."""
    n = len(samples)
    independent = max(1, math.floor(effective_size(samples, q) if effective is None else effective))
    ends = ranks(min(n, independent), q, level)
    if ends is None:
        return None
    if independent < FEWEST_INDEPENDENT <= n:
        # So long a memory is known too badly: nothing is sure but where all samples lie.
        return float(samples.min()), float(samples.max())
    low, high = (rank / (min(n, independent) + 1) for rank in ends)
    ordered = np.sort(samples)
    first = max(0, math.floor(low * (n + 1)) - 1)
    last = min(n - 1, math.ceil(high * (n + 1)) - 1)
    return float(ordered[first]), float(ordered[last])


def mean_interval(
    samples: Floats, *, effective: float | None = None, level: float = LEVEL
) -> tuple[float, float] | None:
    """Interval of the mean: Student's t on the effective number of samples; None below 3.

    Samples that do not repeat each other may do the opposite: if every fifth call is slow, five in a row
    always have one. Means of batches know that (Law & Carson, A Sequential Procedure for Determining the
    Length of a Steady-State Simulation, 1979); 20 of them are enough for a t.

    Rare slow calls make the interval lopsided: who saw few of them has mostly seen too few (`_skew`)."""
    n = len(samples)
    if n < 3:
        return None
    independent = max(2.0, effective_size_of_mean(samples) if effective is None else effective)
    spread = samples
    if independent >= n and n >= 10 * BATCHES:
        spread = samples[: n - n % BATCHES].reshape(BATCHES, -1).mean(axis=1)
        independent = BATCHES
    mean, error = float(samples.mean()), float(spread.std(ddof=1)) / math.sqrt(independent)
    t = t_quantile((1 + level) / 2, independent - 1)
    centred = spread - spread.mean()
    variance = float((centred**2).mean()) if independent >= FEWEST_INDEPENDENT else 0.0
    skewness = float((centred**3).mean()) / variance**1.5 if variance > 1e-18 * mean**2 else 0.0
    low, high = (_skew(end, skewness / math.sqrt(independent)) for end in (t, -t))
    return mean - error * low, mean - error * high


def _skew(t: float, share: float) -> float:
    """The studentised mean at which a symmetric one would be t (Hall, On the Removal of Skewness by
    Transformation, 1992).
    share: skewness of the samples over the root of their number."""
    if abs(share) < 1e-6:
        return t
    return 3 / share * (float(np.cbrt(1 + share * (t - share / 6))) - 1)


def deviation_interval(samples: Floats, *, level: float = LEVEL) -> tuple[float, float] | None:
    """Interval of the standard deviation, for any distribution with four moments.

    Var(s) ~ s^2 (kurtosis - 1) / 4n (Cramer, Mathematical Methods of Statistics, 27.7.2)."""
    n = len(samples)
    if n < 8:
        return None
    centred = samples - samples.mean()
    variance = float((centred**2).mean())
    if variance == 0:
        return 0.0, 0.0
    kurtosis = float((centred**4).mean()) / variance**2
    independent = max(2.0, effective_size(samples))
    deviation = float(samples.std(ddof=1))
    half = _NORMAL.inv_cdf((1 + level) / 2) * deviation * math.sqrt(max(kurtosis - 1, 0) / (4 * independent))
    return max(0.0, deviation - half), deviation + half


# A number of which every trial, a fresh process, gives one value.

FEWEST_TRIALS = 3  # trials from which a mean has an interval


class OverTrials(NamedTuple):
    """A number over its trials."""

    quantity: Quantity  # in the number's own unit; without an interval below three trials
    statistic: str  # what it is: `geometric mean of 5 trials`, `one trial`


def over_trials(values: Sequence[float]) -> OverTrials:
    """The mean of finite values, one a trial, at least one.

    Times and rates are positive and differ by factors, so theirs is the geometric mean with Student's t on
    the logarithms: such an interval never reaches below zero. Numbers that can be zero or negative have the
    usual mean. The trials must be independent: what drifts through all of them does not show."""
    n, first = len(values), float(values[0])
    if n == 1:
        return OverTrials(Quantity(first), "one trial")
    positive = min(values) > 0
    statistic = f"{'geometric mean' if positive else 'mean'} of {count(n, 'trial')}"
    if min(values) == max(values):
        return OverTrials(Quantity.of(first, (first, first) if n >= FEWEST_TRIALS else None, n), statistic)
    scaled = np.log(values) if positive else np.asarray(values, dtype=float)
    around = mean_interval(scaled, effective=n) if n >= FEWEST_TRIALS else None
    turned = np.exp if positive else float
    ends = None if around is None else (float(turned(around[0])), float(turned(around[1])))
    return OverTrials(Quantity.of(float(turned(scaled.mean())), ends, n), statistic)
