"""Is one case faster than another? Four words, and proof for each.

Blocks of both cases are measured side by side in time, round by round, in fresh processes; `paired` says how
large the effect is and how sure. Wrong when one side runs only while the other does not exist (different
machines)."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
from msgspec import structs

from laptime.analysis import paired
from laptime.analysis.evidence import select
from laptime.analysis.paired import MARGIN, Effect
from laptime.analysis.quantiles import Floats, median, quantile
from laptime.records.case import Case
from laptime.records.comparison import Comparison, Word
from laptime.records.series import COMPARISON_ORDER, DISTURBED, EXCLUDED, SHORTEST, UNSETTLED, Label, Series

FEWEST_ROUNDS = 3
DECISION_LEVEL = 0.99
"""faster/slower need this interval beyond the margin: at most 1 of 100 comparisons of equals may differ."""
MIN_PAIRS = 5  # pairs of blocks, undisturbed on both sides, that a word other than `unclear` needs
FEWEST_PROCESSES = 3  # pairs of processes that say how far they lie apart on a crowded machine
BUSY = 0.5  # share of disturbed samples from which the rest are suspect, too
FAST = 0.05  # quantile of a process's calls that neighbours hardly reach


def effect(baseline: Series, candidate: Series) -> Effect | None:
    """The paired effect; None when fewer than three rounds have both sides.

    Disturbed samples are excluded on both sides or on neither: when they leave too few rounds in common, all
    settled samples count, and the error grows with what disturbed them. When most are disturbed, that says
    nothing: beside a neighbour medians of two equal processes differ by a factor, their fastest calls by a
    per cent or two (decision 0057). Then a pair of processes is a value, with the scatter that pairs have."""
    if is_busy := is_crowded(baseline, candidate):
        left, right = fastest(baseline), fastest(candidate)
        logs = [right[process] - left[process] for process in sorted(left.keys() & right.keys())]
        if len(logs) >= FEWEST_PROCESSES:
            rounds = _levels(baseline, UNSETTLED).keys() & _levels(candidate, UNSETTLED).keys()
            return replace(paired.from_pairs(logs), rounds=len(rounds), is_of_fastest=True)
    for excluded in (EXCLUDED, EXCLUDED & ~DISTURBED, Label.NONE):
        before, after = _levels(baseline, excluded), _levels(candidate, excluded)
        shared = sorted(before.keys() & after.keys())
        if len(shared) >= FEWEST_ROUNDS:
            logs, processes = [after[key] - before[key] for key in shared], [process for process, _ in shared]
            found = paired.from_many_rounds(logs, processes)
            started = min(len(set(series.process or [0])) for series in (baseline, candidate))
            return replace(found, doubt=_doubt(found, started, is_busy))
    return None


def _doubt(measured: Effect, started: int, is_busy: bool) -> str:
    """Why no word may be said although the interval would allow it; "" when it may.

    Few blocks may be all of one process: they agree with each other and say nothing about the program. On a
    crowded machine two pairs of processes do not say how far apart processes lie (decision 0003)."""
    if measured.rounds < MIN_PAIRS:
        return f"only {measured.rounds} of {MIN_PAIRS} needed pairs of blocks were undisturbed on both sides"
    if measured.processes < min(2, started):
        return f"only {measured.processes} of {started} processes has undisturbed blocks on both sides"
    return f"most samples were disturbed, and {started} processes are too few" if is_busy else ""


def fastest(series: Series) -> dict[int, float]:
    """Log seconds of the fastest calls of each process: the `FAST` quantile of those that have settled."""
    whole = structs.replace(series, round=[0] * len(series.samples))
    found = _levels(whole, UNSETTLED, partial(quantile, q=FAST))
    return {process: level for (process, _), level in found.items()}


def is_crowded(*sides: Series) -> bool:
    """Whether other programs disturbed most samples of a side."""
    return max((select(side).disturbed for side in sides), default=0.0) > BUSY


def _levels(
    series: Series, excluded: Label, level: Callable[[Floats], float] = median
) -> dict[tuple[int, int], float]:
    """Log level of every (process, round) that has samples without these labels."""
    n = len(series.samples)
    usable = (np.asarray(series.label or [0] * n, dtype=int) & int(excluded)) == 0
    process = np.asarray(series.process or [0] * n, dtype=int)[usable]
    rounds = np.asarray(series.round or list(range(n)), dtype=int)[usable]
    order = np.lexsort((rounds, process))
    values, keys = np.asarray(series.samples)[usable][order], np.stack([process, rounds])[:, order]
    starts = np.nonzero((np.diff(keys, prepend=-1) != 0).any(axis=0))[0]
    blocks = zip(keys.T[starts].tolist(), np.split(values, starts[1:]), strict=False)  # of none, one is empty
    levels = {(process, number): level(block) for (process, number), block in blocks}
    return {key: math.log(value) for key, value in levels.items() if value > SHORTEST}


def judge(measured: Effect, margin: float = MARGIN) -> tuple[Word, tuple[float, float]]:
    """The word, and the 95 % interval of the speed-up (baseline time over candidate time)."""
    said = paired.word(measured, (1 - DECISION_LEVEL) / 2, margin)
    is_same = said == "unclear" and paired.word(measured, 0.025, margin) == "same"
    return "same" if is_same else said, measured.ci95


def compare(
    baseline: Case, candidate: Case, *, regime: str = COMPARISON_ORDER[0], margin: float = MARGIN
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
    return describe(baseline, candidate, regime, measured, margin)


def describe(
    baseline: Case, candidate: Case, regime: str, measured: Effect, margin: float = MARGIN
) -> Comparison:
    """The comparison of two cases with this effect."""
    (word, ci95), doubt = judge(measured, margin), measured.doubt
    if word == "unclear":
        doubt = needs_more(measured, margin)
    elif doubt:
        word = "unclear"
    text = sentence(word, measured.speedup, ci95, margin)
    if measured.is_of_fastest:
        text += f", by the fastest {FAST:.0%} of each process's calls, as others disturbed most"
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
