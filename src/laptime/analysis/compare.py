"""Is one case faster than another? Four words, and proof for each.

Blocks of both cases are measured side by side in time, round by round, in fresh processes; `paired` says how
large the effect is and how sure. Wrong when one side runs only while the other does not exist (different
machines)."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from laptime.analysis import paired
from laptime.analysis.evidence import CROWDED, select
from laptime.analysis.paired import MARGIN, Effect
from laptime.analysis.quantiles import median
from laptime.records.case import Case
from laptime.records.comparison import Comparison, Word
from laptime.records.series import COMPARISON_ORDER, DISTURBED, EXCLUDED, SHORTEST, Label, Regime, Series

FEWEST_ROUNDS = 3
DECISION_LEVEL = 0.99
"""faster/slower need this interval beyond the margin: at most 1 of 100 comparisons of equals may differ."""
MIN_PAIRS = 5  # pairs of blocks, undisturbed on both sides, that a word other than `unclear` needs
FEWEST_PROCESSES = (
    3  # pairs of processes that say how far they lie apart, where disturbed blocks have to count
)


def effect(baseline: Series, candidate: Series) -> Effect | None:
    """The paired effect; None when fewer than three rounds have both sides.

    Disturbed samples are excluded on both sides or on neither: when they leave too few rounds in common, all
    settled samples count, and the error grows with what disturbed them. On a crowded machine (nearly all
    disturbed) all count, too, and the evidence is a pair of processes, with the scatter that the pairs have:
    beside a neighbour two processes of one program differ by several per cent for as long as they live."""
    is_crowded = _most_disturbed(baseline, candidate) > CROWDED
    for excluded in (EXCLUDED, EXCLUDED & ~DISTURBED, Label.NONE)[is_crowded:]:
        left, right = _block_levels(baseline, excluded), _block_levels(candidate, excluded)
        shared = sorted(left.keys() & right.keys())
        if len(shared) >= FEWEST_ROUNDS:
            logs, processes = [right[key] - left[key] for key in shared], [process for process, _ in shared]
            usual = paired.from_many_rounds(logs, processes)
            return paired.as_processes_scatter(usual, logs, processes) if is_crowded else usual
    return None


def _most_disturbed(*sides: Series) -> float:
    return max(select(each).disturbed for each in sides)


def _block_levels(series: Series, excluded: Label) -> dict[tuple[int, int], float]:
    """Log median of every (process, round) that has samples without these labels."""
    n = len(series.samples)
    usable = (np.asarray(series.label or [0] * n, dtype=int) & int(excluded)) == 0
    if not usable.any():
        return {}
    values = np.asarray(series.samples, dtype=float)[usable]
    process = np.asarray(series.process or [0] * n, dtype=int)[usable]
    rounds = np.asarray(series.round or list(range(n)), dtype=int)[usable]
    order = np.lexsort((rounds, process))
    process, rounds, values = process[order], rounds[order], values[order]
    starts = np.nonzero((np.diff(process, prepend=-1) != 0) | (np.diff(rounds, prepend=-1) != 0))[0]
    blocks = np.split(values, starts[1:])
    return {
        (int(process[at]), int(rounds[at])): math.log(level)
        for at, block in zip(starts, blocks, strict=True)
        if (level := median(block)) > SHORTEST
    }


def judge(measured: Effect, margin: float = MARGIN) -> tuple[Word, tuple[float, float]]:
    """The word, and the 95 % interval of the speed-up (baseline time over candidate time)."""
    said = paired.word(measured, (1 - DECISION_LEVEL) / 2, margin)
    is_same = said == "unclear" and paired.word(measured, 0.025, margin) == "same"
    return "same" if is_same else said, measured.ci95


def compare(
    baseline: Case, candidate: Case, *, regime: str = Regime.ISOLATED, margin: float = MARGIN
) -> Comparison | None:
    """Compare two interleaved cases; times are taken per item if batch sizes or instances differ.

    Returns None when a side has no samples in this regime or too few rounds are shared."""
    left, right = baseline.find("latency", regime), candidate.find("latency", regime)
    if left is None or right is None:
        return None
    measured = effect(left, right)
    if measured is None:
        return None
    measured = replace(measured, mean=measured.mean - math.log(candidate.items / baseline.items))
    return described(baseline, candidate, regime, measured, margin, thin_evidence(left, right, measured))


def described(
    baseline: Case, candidate: Case, regime: str, measured: Effect, margin: float = MARGIN, doubt: str = ""
) -> Comparison:
    """The comparison of two cases with this effect. doubt: why no word may be said, whatever the interval
    allows; "" when one may."""
    word, ci95 = judge(measured, margin)
    if word == "unclear":
        doubt = needs_more(measured, margin)
    elif doubt:
        word = "unclear"
    text = sentence(word, measured.speedup, ci95, margin)
    return Comparison(
        baseline=baseline.key,
        candidate=candidate.key,
        metric=f"latency/{regime}" if baseline.items == candidate.items else f"time per item/{regime}",
        speedup=measured.speedup,
        ci95=ci95,
        word=word,
        margin=margin,
        pairs=measured.rounds,
        processes=measured.processes,
        sentence=f"{text}; {doubt}" if doubt else text,
    )


def needs_more(measured: Effect, margin: float = MARGIN) -> str:
    """Say why an effect is unclear though its 95 % interval lies beyond the margin; "" if it does not."""
    low, high = measured.ci95
    if low <= 1 + margin and high >= 1 / (1 + margin):
        return ""
    sure = (1 - DECISION_LEVEL) / 2
    low, high = math.exp(-measured.upper(sure)), math.exp(-measured.lower(sure))
    return f"a word needs {DECISION_LEVEL:.0%}, at which the interval is [{_ratio(low)}, {_ratio(high)}]"


def compare_in_shared_regime(baseline: Case, candidate: Case) -> Comparison | None:
    """Compare two interleaved cases in the first regime that both were measured in, and None without one."""
    compared = (compare(baseline, candidate, regime=regime) for regime in COMPARISON_ORDER)
    return next((comparison for comparison in compared if comparison is not None), None)


def thin_evidence(baseline: Series, candidate: Series, measured: Effect) -> str:
    """Say why no word may be said although the interval would allow it; "" when it may.

    Few blocks may be all of one process: they agree with each other and say nothing about the program. On a
    crowded machine two pairs of processes do not say how far apart processes lie (decision 0003)."""
    started = min(len(set(series.process or [0])) for series in (baseline, candidate))
    if measured.rounds < MIN_PAIRS:
        return (
            f"only {measured.rounds} of the {MIN_PAIRS} pairs of blocks needed were undisturbed on both sides"
        )
    if measured.processes < min(2, started):
        return f"only {measured.processes} of {started} processes has undisturbed blocks on both sides"
    disturbed = _most_disturbed(baseline, candidate)
    if disturbed > CROWDED and measured.processes < FEWEST_PROCESSES:
        return (
            f"{disturbed:.0%} of the samples were disturbed, and {measured.processes} processes are too few"
        )
    return ""


def sentence(word: Word, speedup: float, ci95: tuple[float, float], margin: float) -> str:
    """Return the sentence for the user: the factor by which it is faster or slower, with its interval."""
    low, high = ci95
    if word == "same":
        return f"same: within {margin:.0%} (ratio {speedup:.3f} [{low:.3f}, {high:.3f}])"
    if word == "slower":
        return f"slower: {_ratio(1 / speedup)}x the time [{_ratio(1 / high)}, {_ratio(1 / low)}]"
    lead = "faster" if word == "faster" else "unclear"
    return f"{lead}: {_ratio(speedup)}x the speed [{_ratio(low)}, {_ratio(high)}]"


def _ratio(value: float) -> str:
    """Two decimals; fewer from ten on, if they say nothing."""
    return f"{value:,.{2 if value < 10 else 1 if value < 100 else 0}f}"
