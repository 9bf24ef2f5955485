"""Is one case faster than another? Four words, and proof for each.

Blocks of both cases are measured side by side in time, round by round, in fresh processes. The unit of
evidence is the difference of log medians of one round, so drift of the machine cancels. Differences
within one pair of processes share their memory layout; the variance of the answer therefore comes from the
processes' own means, moderated by what is expected of them (prior degrees of freedom, as in Smyth 2004,
"Linear models and empirical Bayes methods", for few replicates).

Lies when: one side runs only while the other does not exist (different machines), or a neighbour reacts to
one side alone.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from laptime.analysis.evidence import select
from laptime.analysis.quantiles import Floats, t_quantile
from laptime.records.case import Case
from laptime.records.comparison import Comparison, Word
from laptime.records.regime import COMPARISON_ORDER, Regime
from laptime.records.series import DISTURBED, EXCLUDED, Label, Series

MARGIN = 0.01
"""Relative difference below which nothing is claimed, and within which `same` is."""

BETWEEN_PROCESSES = 0.005
"""Standard deviation, as a share, expected between two fresh processes of one program (layout, placement)."""

TRIM = 0.2
"""Share of rounds left out at each end of their order: the usual amount for a robust mean (Wilcox 2012)."""

FEWEST_ROUNDS = 3
PRIOR_DF = 3
DECISION_LEVEL = 0.99
"""faster/slower need this interval beyond the margin: at most 1 of 100 comparisons of equals may differ."""


MIN_PAIRS = 5
"""Pairs of blocks, undisturbed on both sides, that a word other than `unclear` needs."""

CROWDED = 0.75
"""Share of disturbed samples from which the rest are suspect, too: nothing but `unclear` is said."""


class Effect(NamedTuple):
    """Log ratio of baseline time over candidate time (positive: candidate faster) and its error.

    Attributes:
        estimate: mean over processes of the mean paired difference.
        error: standard error.
        df: degrees of freedom of that error.
        pairs: rounds in which both sides have samples.
        processes: processes of each side.
    """

    estimate: float
    error: float
    df: float
    pairs: int
    processes: int


def effect(baseline: Series, candidate: Series) -> Effect | None:
    """The paired effect; None when fewer than three rounds have both sides.

    Disturbed samples are excluded on both sides or on neither: when they leave too few rounds in common,
    all settled samples speak, and the error grows with what disturbed them.
    """
    for labels in (EXCLUDED, EXCLUDED & ~DISTURBED, Label.NONE):
        left, right = _block_levels(baseline, labels), _block_levels(candidate, labels)
        shared = sorted(left.keys() & right.keys())
        if len(shared) >= FEWEST_ROUNDS:
            break
    else:
        return None
    differences = np.array([left[key] - right[key] for key in shared])
    process = np.array([key[0] for key in shared])
    own = [differences[process == p] for p in np.unique(process)]
    means = np.array([_trimmed_mean(part) for part in own])
    rounds = len(shared) / len(own)
    expected = _within_variance(own, means) / rounds + BETWEEN_PROCESSES**2
    seen = float(means.var(ddof=1)) if len(own) > 1 else 0.0
    freedom = PRIOR_DF + len(own) - 1
    variance = (PRIOR_DF * expected + (len(own) - 1) * seen) / freedom
    # Never surer than the rounds themselves allow.
    variance = max(variance, expected)
    return Effect(float(means.mean()), math.sqrt(variance / len(own)), freedom, len(shared), len(own))


def _block_levels(series: Series, excluded: Label) -> dict[tuple[int, int], float]:
    """Log median of every (process, round) that has samples without these labels."""
    n = len(series.samples)
    kept = (np.asarray(series.label or [0] * n, dtype=int) & int(excluded)) == 0
    if not kept.any():
        return {}
    values = np.asarray(series.samples, dtype=float)[kept]
    process = np.asarray(series.process or [0] * n, dtype=int)[kept]
    rounds = np.asarray(series.round or list(range(n)), dtype=int)[kept]
    order = np.lexsort((rounds, process))
    process, rounds, values = process[order], rounds[order], values[order]
    starts = np.nonzero((np.diff(process, prepend=-1) != 0) | (np.diff(rounds, prepend=-1) != 0))[0]
    blocks = np.split(values, starts[1:])
    return {
        (int(process[at]), int(rounds[at])): math.log(float(np.median(block)))
        for at, block in zip(starts, blocks, strict=True)
    }


def _trimmed_mean(values: Floats) -> float:
    """Mean without the lowest and the highest fifth, so that single bad rounds do not matter."""
    cut = int(TRIM * len(values))
    return float(np.sort(values)[cut : len(values) - cut].mean())


def _within_variance(own: list[Floats], means: Floats) -> float:
    """Variance that one round contributes to a trimmed mean (Yuen 1974): winsorized, all processes pooled."""
    residuals = np.sort(np.concatenate([part - mean for part, mean in zip(own, means, strict=True)]))
    n = len(residuals)
    cut = int(TRIM * n)
    winsorized = np.clip(residuals, residuals[cut], residuals[n - 1 - cut])
    lost = max(1, n - len(own))  # every process's level was fitted
    return float((winsorized**2).sum()) / lost / (1 - 2 * cut / n) ** 2


def judge(found: Effect, margin: float = MARGIN) -> tuple[Word, tuple[float, float]]:
    """The word, and the 95 % interval of the speed-up (baseline time over candidate time)."""
    half = t_quantile(0.975, found.df) * found.error
    low, high = found.estimate - half, found.estimate + half
    sure = t_quantile((1 + DECISION_LEVEL) / 2, found.df) * found.error
    edge = math.log1p(margin)
    word: Word = "unclear"
    if found.estimate - sure > edge:
        word = "faster"
    elif found.estimate + sure < -edge:
        word = "slower"
    elif low > -edge and high < edge:
        word = "same"
    return word, (math.exp(low), math.exp(high))


def compare(
    baseline: Case, candidate: Case, *, regime: str = Regime.ISOLATED, margin: float = MARGIN
) -> Comparison | None:
    """Compare two interleaved cases; times are taken per item when their batch sizes differ.

    Returns None when a side has no samples in this regime or too few rounds are shared.
    """
    left, right = baseline.find("latency", regime), candidate.find("latency", regime)
    if left is None or right is None:
        return None
    found = effect(left, right)
    if found is None:
        return None
    found = found._replace(estimate=found.estimate + math.log(candidate.batch / baseline.batch))
    word, ci95 = judge(found, margin)
    speedup = math.exp(found.estimate)
    told = sentence(word, speedup, ci95, margin)
    if word != "unclear" and (doubt := thin_evidence(left, right, found)):
        word = "unclear"
        told = f"{sentence(word, speedup, ci95, margin)}; {doubt}"
    return Comparison(
        baseline=baseline.key,
        candidate=candidate.key,
        metric=f"latency/{regime}" if baseline.batch == candidate.batch else f"time per item/{regime}",
        speedup=speedup,
        ci95=ci95,
        word=word,
        margin=margin,
        pairs=found.pairs,
        processes=found.processes,
        sentence=told,
    )


def compare_in_shared_regime(baseline: Case, candidate: Case) -> Comparison | None:
    """Compare two interleaved cases in the first regime that both were measured in, and None without one."""
    compared = (compare(baseline, candidate, regime=regime) for regime in COMPARISON_ORDER)
    return next((comparison for comparison in compared if comparison is not None), None)


def thin_evidence(baseline: Series, candidate: Series, found: Effect) -> str:
    """Why no word may be said although the interval would allow it; "" when it may.

    On a crowded machine few blocks stay undisturbed, perhaps all of one process: they agree with each other
    and say nothing about the program.
    """
    run = min(len(set(series.process or [0])) for series in (baseline, candidate))
    if found.pairs < MIN_PAIRS:
        return f"only {found.pairs} of the {MIN_PAIRS} pairs of blocks needed were undisturbed on both sides"
    if found.processes < min(2, run):
        return f"only {found.processes} of {run} processes has undisturbed blocks on both sides"
    worst = max((select(series) for series in (baseline, candidate)), key=lambda each: each.disturbed)
    if worst.disturbed > CROWDED:
        return f"{worst.disturbed:.0%} of the samples were disturbed"
    return ""


def sentence(word: Word, speedup: float, ci95: tuple[float, float], margin: float) -> str:
    """What the user reads: the factor by which it is faster or slower, with its interval."""
    low, high = ci95
    if word == "same":
        return f"same: within {margin:.0%} (ratio {speedup:.3f} [{low:.3f}, {high:.3f}])"
    if word == "slower":
        return f"slower: {1 / speedup:.2f}x the time [{1 / high:.2f}, {1 / low:.2f}]"
    if word == "faster":
        return f"faster: {speedup:.2f}x the speed [{low:.2f}, {high:.2f}]"
    return f"unclear: {speedup:.2f}x the speed [{low:.2f}, {high:.2f}]"
