"""What paired rounds say: the effect, its error, and how sure that is with few and heavy-tailed rounds.

The unit of evidence is the log of one round's ratio: drift and changes of the machine's speed hit both sides
of a round. Spikes are left to a trimmed mean with the winsorised variance of Yuen (1974), whose few degrees
of freedom are helped out by what the script against itself was seen to do (A/A), as in Smyth (2004): the
variance is moderated towards it. Rounds of one pair of processes share its memory layout; that part of the
error shrinks with the number of processes, not of rounds.

Lies when: the noise of one side alone leans to one direction, or every process of a side differs in the same
way from its twin for a reason that is not the change (another file cached, another core).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from laptime.analysis.quantiles import t_quantile
from laptime.tuning.loop_profile import UNKNOWN_NOISE

BETWEEN_PROCESSES = 0.005
"""Standard deviation, as a share, expected between two fresh processes of one program, as `analysis.compare`
has it."""

PRIOR_DF = 3
"""Rounds that the A/A noise is worth."""

LEAST_NOISE = 0.002
"""No machine is quieter than this; guards against an A/A that came out even by luck."""

CUT = 4
"""One in so many rounds is left out at each end of their order."""


@dataclass(frozen=True)
class Estimate:
    """An effect in log ratio, candidate over incumbent: below 0 is less time.

    Attributes:
        mean: of the rounds, trimmed. error: standard error. df: degrees of freedom of that error.
        rounds, processes: how many.
    """

    mean: float
    error: float
    df: float
    rounds: int
    processes: int

    def upper(self, alpha: float) -> float:
        """One-sided bound: the true effect lies above it in at most `alpha` of all cases."""
        return self.mean + _t(alpha, self.df) * self.error

    def lower(self, alpha: float) -> float:
        """One-sided bound from below."""
        return self.mean - _t(alpha, self.df) * self.error

    @property
    def speedup(self) -> float:
        """Incumbent's time over the candidate's."""
        return math.exp(-self.mean)

    @property
    def ci95(self) -> tuple[float, float]:
        """Of `speedup`, two-sided, 95 %."""
        return math.exp(-self.upper(0.025)), math.exp(-self.lower(0.025))


@lru_cache(maxsize=4096)
def _t_at(alpha: float, df: float) -> float:
    return t_quantile(1 - alpha, df)


def _t(alpha: float, df: float) -> float:
    # Half degrees of freedom, rounded down: conservative, and few enough to remember.
    return _t_at(alpha, max(1.0, math.floor(2 * df) / 2))


def estimate(logs: Sequence[float], processes: Sequence[int], noise: float) -> Estimate:
    """The effect of rounds with these log ratios.

    Args:
        logs: one a round, at least two. processes: the pair of fresh processes that each comes from.
        noise: standard deviation of a round of the script against itself; 0: unknown.
    """
    n = len(logs)
    cut = n // CUT
    mean, squares = _trimmed(logs, cut)
    kept = n - 2 * cut
    seen_df = kept - 1
    seen = n * squares / (kept * seen_df) if seen_df > 0 else 0.0
    prior = max(noise or UNKNOWN_NOISE, LEAST_NOISE) ** 2 * 1.1
    each = (PRIOR_DF * prior + seen_df * seen) / (PRIOR_DF + seen_df)
    within, within_df = each / n, PRIOR_DF + seen_df
    groups = _means(logs, processes)
    between, between_df = _between(groups, each, n)
    variance = within + between / len(groups)
    share = within / variance
    df = 1 / (share**2 / within_df + (1 - share) ** 2 / between_df)  # Satterthwaite 1946
    return Estimate(mean, math.sqrt(variance), df, n, len(groups))


def _trimmed(values: Sequence[float], cut: int) -> tuple[float, float]:
    """Mean without `cut` at each end, and the winsorised sum of squares around the winsorised mean."""
    ordered = sorted(values)
    n = len(ordered)
    kept = ordered[cut : n - cut]
    pulled = [kept[0]] * cut + kept + [kept[-1]] * cut
    centre = sum(pulled) / n
    return sum(kept) / len(kept), sum((value - centre) ** 2 for value in pulled)


def _means(logs: Sequence[float], processes: Sequence[int]) -> list[float]:
    """Trimmed mean of every process."""
    own: dict[int, list[float]] = defaultdict(list)
    for value, process in zip(logs, processes, strict=True):
        own[process].append(value)
    return [_trimmed(values, len(values) // CUT)[0] for values in own.values()]


def _between(means: Sequence[float], each: float, rounds: int) -> tuple[float, float]:
    """Variance between processes beyond what their rounds explain, and its degrees of freedom."""
    prior = BETWEEN_PROCESSES**2
    if len(means) == rounds:
        return prior, PRIOR_DF + rounds  # each round is its own process: seen in the rounds already
    centre = sum(means) / len(means)
    more = len(means) - 1
    seen = sum((mean - centre) ** 2 for mean in means) / more if more else 0.0
    beyond = max(0.0, seen - each * len(means) / rounds)
    return (PRIOR_DF * prior + more * beyond) / (PRIOR_DF + more), PRIOR_DF + more


def spread(logs: Sequence[float]) -> float:
    """Standard deviation of one round, spikes set aside; 0 below four rounds."""
    n = len(logs)
    if n < 4:
        return 0.0
    cut = n // CUT
    squares, kept = _trimmed(logs, cut)[1], n - 2 * cut
    return math.sqrt(n * squares / (kept * (kept - 1)) / 1.1)
