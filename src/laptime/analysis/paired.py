"""The effect of a change from paired rounds: its mean, its error, and how sure both are.

A round times both sides beside each other. The unit of evidence is the log of one round's time ratio, so
drift and speed changes of the machine cancel. Three things make the few, heavy-tailed rounds usable:

* A trimmed mean with the winsorised variance of Yuen (1974) keeps single bad rounds out.
* The variance is moderated towards what is expected before the first round (Smyth 2004, "Linear models and
  empirical Bayes methods"), as few rounds say little about their own scatter.
* Rounds of one pair of processes share its memory layout. That part of the error shrinks with the number of
  processes, not with that of rounds.

`from_many_rounds` is for `bench`: some processes with many rounds each. `from_few_rounds` is for the races
of `tune`: 3 to 48 rounds, and an A/A noise that was measured before. `from_pairs` is for a gain that is
measured again: a pair of processes is one value, its scatter is taken as it was, and few are not trimmed.

Wrong when one side's noise leans to one direction, or when every process of one side differs from its twin
in the same way for another reason (another file cached, another core, a neighbour that reacts to one side).
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from laptime.analysis.student_t import t_quantile
from laptime.records.comparison import Word
from laptime.records.quantity import Quantity

MARGIN = 0.01  # relative difference below which nothing is claimed, and within which two sides are `same`
BETWEEN_PROCESSES = 0.005
"""Standard deviation, as a share, expected between two fresh processes of one program (layout, placement)."""
PRIOR_DF = 3  # degrees of freedom that an expected variance is worth
TRIM = 0.2  # share of many rounds left out at each end of their order: usual for a robust mean (Wilcox 2012)
KNOWN = 5  # pairs of processes that say by themselves how far they lie apart
APART, FEW = 8, 10  # of pairs of processes, one in 8 is left out at each end of their order, if they are 10
CUT = 4  # of few rounds, one in so many is left out at each end of their order
LEAST_NOISE = 0.002  # no machine is quieter than this; guards against an A/A that came out even by luck
LEAST = 3  # the fewest fresh processes whose values have an interval
_WINSORISED_BIAS = 1.1  # variance of normal rounds over what their winsorised variance says, with CUT


@dataclass(frozen=True)
class Effect:
    """Log ratio of the times of two sides, candidate over baseline: below 0 the candidate is faster."""

    mean: float  # over the rounds, trimmed
    error: float  # its standard error
    df: float  # degrees of freedom of that error
    rounds: int  # in which both sides have a time
    processes: int  # of each side
    is_of_fastest: bool = False  # only the fastest calls of each process were compared
    doubt: str = ""  # why no word may be said although the interval would allow it

    def upper(self, alpha: float) -> float:
        """One-sided bound: the true effect lies above it in at most `alpha` of all cases."""
        return self.mean + self.reach(alpha)

    def lower(self, alpha: float) -> float:
        """One-sided bound from below."""
        return self.mean - self.reach(alpha)

    def reach(self, alpha: float) -> float:
        """Distance of a one-sided bound from the mean."""
        # Half degrees of freedom, rounded down: conservative, and few enough to be looked up.
        return t_quantile(1 - alpha, max(1.0, math.floor(2 * self.df) / 2)) * self.error

    @property
    def speedup(self) -> float:
        """Baseline's time over the candidate's."""
        return math.exp(-self.mean)

    @property
    def ci95(self) -> tuple[float, float]:
        """The interval of `speedup`, two-sided, 95 %."""
        return math.exp(-self.upper(0.025)), math.exp(-self.lower(0.025))


def word(effect: Effect, alpha: float, margin: float = MARGIN) -> Word:
    """The word that an effect allows, each bound wrong in at most `alpha` of all cases."""
    edge = math.log1p(margin)
    low, high = effect.lower(alpha), effect.upper(alpha)
    if high < -edge:
        return "faster"
    if low > edge:
        return "slower"
    return "same" if low > -edge and high < edge else "unclear"


def from_many_rounds(logs: Sequence[float], processes: Sequence[int]) -> Effect:
    """The effect of many rounds in a few pairs of processes. logs: log time ratio of each round. processes:
    the pair of processes that it comes from."""
    parts = _by_process(logs, processes)
    means = [trim(part, int(TRIM * len(part)))[0] for part in parts]
    if len(means) >= KNOWN:
        return replace(from_pairs(means), rounds=len(logs))
    residuals = [value - mean for part, mean in zip(parts, means, strict=True) for value in part]
    cut = int(TRIM * len(residuals))
    squares = sum(value * value for value in winsorise(residuals, cut))
    fitted = max(1, len(residuals) - len(parts))  # every process's level was fitted
    within = squares / fitted / (1 - 2 * cut / len(residuals)) ** 2
    expected = within * len(parts) / len(logs) + BETWEEN_PROCESSES**2
    observed = _variance(means)
    moderated_variance, df = moderate(expected, observed, len(means) - 1)
    # Never surer than the rounds themselves allow.
    error = math.sqrt(max(moderated_variance, expected) / len(parts))
    return Effect(fmean(means), error, df, len(logs), len(parts))


def from_few_rounds(logs: Sequence[float], processes: Sequence[int], noise: float) -> Effect:
    """The effect of a race's rounds.
    logs: log time ratio of each round, at least two. processes: the pair of processes that it comes from.
    noise: standard deviation of a round of the script against itself, above 0."""
    n = len(logs)
    cut = n // CUT
    mean, squares = trim(logs, cut)
    left = n - 2 * cut
    observed = n * squares / (left * (left - 1)) if left > 1 else 0.0
    prior = max(noise, LEAST_NOISE) ** 2 * _WINSORISED_BIAS
    each, within_df = moderate(prior, observed, left - 1)
    means = [trim(part, len(part) // CUT)[0] for part in _by_process(logs, processes)]
    within = each / n
    between, between_df = _between_processes(means, each, n)
    variance_of_mean = within + between / len(means)
    share = within / variance_of_mean
    df = 1 / (share**2 / within_df + (1 - share) ** 2 / between_df)  # Satterthwaite 1946
    return Effect(mean, math.sqrt(variance_of_mean), df, n, len(means))


def from_pairs(logs: Sequence[float]) -> Effect:
    """The effect that pairs of fresh processes show, with Student's t over their scatter as it was measured;
    from `FEW` on of a trimmed mean (Yuen 1974), as a pair in twenty or so lies far from the others.
    logs: log time ratio of each pair, at least two."""
    cut = len(logs) // APART if len(logs) >= FEW else 0
    mean, squares = trim(logs, cut)
    left = len(logs) - 2 * cut
    error = math.sqrt(squares / (left * max(1, left - 1)))
    return Effect(mean, max(error, 1e-9), left - 1, len(logs), len(logs))


def of_processes(values: Sequence[float], unit: str = "1") -> Quantity:
    """A number above zero that each fresh process gave once: the geometric mean, with a 95 % interval from
    `LEAST` values on."""
    effect = from_pairs([math.log(value) for value in values])
    ends = (math.exp(effect.lower(0.025)), math.exp(effect.upper(0.025))) if len(values) >= LEAST else None
    return Quantity.of(math.exp(effect.mean), ends, len(values), unit)


def _between_processes(means: Sequence[float], each: float, rounds: int) -> tuple[float, float]:
    """Variance between processes beyond what their rounds explain, and its degrees of freedom."""
    prior = BETWEEN_PROCESSES**2
    if len(means) == rounds:
        return prior, PRIOR_DF + rounds  # each round is its own process: seen in the rounds already
    df = len(means) - 1
    beyond = max(0.0, _variance(means) - each * len(means) / rounds)
    return moderate(prior, beyond, df)


def _variance(values: Sequence[float]) -> float:
    """0 for a single value."""
    centre = sum(values) / len(values)
    return sum((value - centre) ** 2 for value in values) / max(1, len(values) - 1)


def moderate(expected: float, observed: float, df: float) -> tuple[float, float]:
    """An observed variance of `df` degrees of freedom, moderated towards the expected one (Smyth 2004)."""
    return (PRIOR_DF * expected + df * observed) / (PRIOR_DF + df), PRIOR_DF + df


def spread(logs: Sequence[float]) -> float:
    """Standard deviation of one round, without spikes; 0 below four rounds."""
    n = len(logs)
    if n < 4:
        return 0.0
    cut = n // CUT
    squares, left = trim(logs, cut)[1], n - 2 * cut
    return math.sqrt(n * squares / (left * (left - 1)) / _WINSORISED_BIAS)


def trim(values: Sequence[float], cut: int) -> tuple[float, float]:
    """Mean without `cut` values at each end, and the winsorised sum of squares around the winsorised mean."""
    pulled = winsorise(values, cut)
    inner = pulled[cut : len(pulled) - cut]
    centre = sum(pulled) / len(pulled)
    return sum(inner) / len(inner), sum((value - centre) ** 2 for value in pulled)


def winsorise(values: Sequence[float], cut: int) -> list[float]:
    """In order, the `cut` values at each end pulled to the nearest one inside."""
    inner = sorted(values)[cut : len(values) - cut]
    return [inner[0]] * cut + inner + [inner[-1]] * cut


def _by_process(values: Sequence[float], processes: Sequence[int]) -> list[list[float]]:
    parts: dict[int, list[float]] = defaultdict(list)
    for value, process in zip(values, processes, strict=True):
        parts[process].append(value)
    return list(parts.values())
