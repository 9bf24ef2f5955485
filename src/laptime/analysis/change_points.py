"""Where did the level of a history change? A permutation test of the whole search keeps false alarms rare.

1. Values are logarithms, so that steps are factors. A single wild run is drawn to the median of its
   neighbours: what lies more than 4 scaled MADs off the running median of 7 is cut to that (Hampel).
2. The statistic is the largest mean contrast, (sum left - expected)^2 n / (a b), over all splits of all
   seeded intervals (Kovacs, Buehlmann, Li & Munk 2023, "Seeded binary segmentation"): a bump shows in an
   interval of its own length as well as a lasting step does in the whole.
3. The same is done to random permutations of the runs, step 1 in it: the share of them that reach the
   statistic is the p-value of *the best of all splits*, exact when runs of one level are exchangeable
   (the idea of E-divisive, Matteson & James 2014, with a contrast of means).
4. A found change splits the history; each part of m of n runs is searched at level alpha m / n
   (Meinshausen 2008, "Hierarchical testing"), so that all parts together keep alpha. Several histories
   share alpha by Holm's procedure (`holm`).
5. Changes smaller than the margin are left out.
6. More than LONGEST runs are searched twice, each at half the level: all of them as means of groups of
   neighbours, which are exchangeable if runs are, and the newest LONGEST one by one. What lasted less than
   three groups and is older than those is not found.

Lies when: neighbouring runs resemble each other for reasons outside the program (a shared machine that is
slow for hours): then the level did change, but not because of a commit. Measured rates: docs/history.md."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from laptime.analysis.paired import MARGIN
from laptime.analysis.quantiles import Floats
from laptime.analysis.student_t import t_quantile

LEVEL = 0.01  # chance of naming any change in a history, or family of histories, that has none
FEWEST = 10  # runs below which there are too few orders to tell anything at this level
LONGEST = 256  # runs that are searched one by one
SHORTEST = 3  # runs on either side of a change: one or two may be an accident
_PERMUTATIONS, _MOST = 1999, 19_999
_CHUNK = 50
_AT_ONCE = 200_000  # contrasts held in memory at once
_ENOUGH = 30
"""Permutations that beat the data after which the search stops: no change (Besag & Clifford 1991)."""
_WINDOW, _WILD = 7, 4.0
_MEDIAN_OF_7 = (
    *((0, 5), (0, 3), (1, 6), (2, 4), (0, 1), (3, 5), (2, 6)),
    *((2, 3), (3, 6), (4, 5), (1, 4), (1, 3), (3, 4)),
)
"""Exchanges that bring the median of seven values to the middle; faster on whole arrays than sorting.
Source: Devillard 1998, "Fast median search"."""
_MAD = 1.4826
Splits = tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]


class ChangePoint(NamedTuple):
    """A change of level."""

    at: int  # index of the first value of the new level
    ratio: float  # new level over old level
    # 95 % interval of that, Welch's t on the logarithms; None if a level does not vary
    ci95: tuple[float, float] | None
    p: float  # of the search that found it, within its part


def changes(
    histories: Sequence[Sequence[float]], level: float = LEVEL, margin: float = MARGIN
) -> list[list[ChangePoint]]:
    """The changes of level in each of several histories, oldest first.
    histories: positive numbers, one a run, in the order of time. level: chance of naming any change in any of
    them if there is none. margin: changes smaller than this share are left out."""
    logs = [np.log(np.asarray(values, dtype=float)) for values in histories]
    # Too short ones are not asked, and cost the others nothing.
    long_enough = [index for index, history in enumerate(logs) if len(history) >= FEWEST]
    firsts = {at: _best(logs[at], level / len(long_enough)) for at in long_enough}
    levels = dict(zip(long_enough, holm([p for _, p in firsts.values()], level), strict=True))
    return [
        _describe(history, _search(history, firsts[at], levels[at]), margin) if levels.get(at) else []
        for at, history in enumerate(logs)
    ]


def _search(logs: Floats, first: tuple[int, float], level: float) -> dict[int, float]:
    """The p-value of every split that is significant, each part searched in turn."""
    p_values = {first[0]: first[1]}
    parts = [(0, first[0]), (first[0], len(logs))]
    while parts:
        start, end = parts.pop()
        if end - start < FEWEST:
            continue
        share = level * (end - start) / len(logs)
        split, p = _best(logs[start:end], share)
        if p <= share:
            p_values[start + split] = p
            parts += [(start, start + split), (start + split, end)]
    return p_values


def holm(p_values: Sequence[float], level: float = LEVEL) -> list[float]:
    """The level at which each of several histories may be searched; 0 if nothing may be said.

    Holm 1979: the smallest p-value is held against level / k, the next against level / (k - 1), until one
    fails; it and all after it are out."""
    adjusted = [0.0] * len(p_values)
    for rank, at in enumerate(sorted(range(len(p_values)), key=lambda index: p_values[index])):
        step_level = level / (len(p_values) - rank)
        if p_values[at] > step_level:
            break
        adjusted[at] = step_level
    return adjusted


def _best(logs: Floats, level: float) -> tuple[int, float]:
    """The best split and its p-value, of all runs or, if there are many, of groups and of the newest."""
    if len(logs) <= LONGEST:
        return _best_of_all(logs, level)
    size = -(-len(logs) // LONGEST)
    rest = len(logs) % size  # of the oldest runs: groups are of one size, or they were not exchangeable
    coarse, coarse_p = _best_of_all(_group_means(logs[rest:].reshape(-1, size)), level / 2)
    newest, newest_p = _best_of_all(logs[-LONGEST:], level / 2)
    if newest_p <= coarse_p:
        return len(logs) - LONGEST + newest, min(1.0, 2 * newest_p)
    # The run at which runs on both sides differ most, at most a third of `reach` away from a place.
    near, reach = rest + coarse * size, SHORTEST * size
    begin, end = max(0, near - reach), min(len(logs), near + reach)
    at = np.arange(max(begin + SHORTEST, near - reach // 3), min(end - SHORTEST, near + reach // 3) + 1)
    splits = (np.full_like(at, begin), at, np.full_like(at, end))
    return int(at[_contrasts(logs[None, :], splits)[0].argmax()]), min(1.0, 2 * coarse_p)


def _group_means(groups: Floats) -> Floats:
    """The mean of each row, its wild values cut to 4 scaled MADs off its median; the MAD is of all rows."""
    middle = np.median(groups, axis=1, keepdims=True)
    reach = _WILD * _MAD * np.median(np.abs(groups - middle))
    means: Floats = np.clip(groups, middle - reach, middle + reach).mean(axis=1)
    return means


def _best_of_all(logs: Floats, level: float) -> tuple[int, float]:
    """The best split, and how often a permutation has one as good; drawn as often as the level needs.

    The random numbers depend on the number of runs alone: the same history gives the same answer."""
    # Start, split and end of every split of every seeded interval of n values.
    n = len(logs)
    rows: list[tuple[int, int, int]] = []
    length, layer = float(n), 1
    while length >= 2 * SHORTEST:
        number = 2 * layer - 1
        starts = np.linspace(0, n - length, number) if number > 1 else np.zeros(1)
        for begin in starts:
            start, end = math.floor(begin + 1e-9), min(n, math.ceil(begin + length - 1e-9))
            rows += [(start, at, end) for at in range(start + SHORTEST, end - SHORTEST + 1)]
        length, layer = length / 2, layer * 2
    splits = tuple(np.array(sorted(set(rows)), dtype=np.intp).T)
    contrast = _contrasts(logs[None, :], splits)[0]
    best = int(contrast.argmax())
    # A permutation that ties but for rounding counts as one that reaches it.
    reached = float(contrast[best]) * (1 - 1e-9)
    if reached <= 0:
        return int(splits[1][best]), 1.0
    dice = np.random.default_rng(len(logs))
    most = min(_MOST, max(_PERMUTATIONS, math.ceil(2 / level)))
    chunk = max(1, min(_CHUNK, _AT_ONCE // len(splits[0])))
    room = np.empty((2, len(splits[0]), chunk))  # once: fresh memory costs more than the sums
    beaten = drawn = 0
    while drawn < most and beaten < _ENOUGH:
        number = min(chunk, most - drawn)
        shuffled = dice.permuted(np.broadcast_to(logs, (number, len(logs))), axis=1)
        beaten += int((_contrasts(shuffled, splits, room[..., :number]).max(axis=1) >= reached).sum())
        drawn += number
    return int(splits[1][best]), (beaten + 1) / (drawn + 1)


def _contrasts(rows: Floats, splits: Splits, room: Floats | None = None) -> Floats:
    """Contrast of every split, shape (rows, splits); computed in `room`, shape (2, splits, rows)."""
    start, at, end = splits
    sums = np.zeros((rows.shape[1] + 1, len(rows)))
    np.cumsum(_tame(rows).T, axis=0, out=sums[1:])
    left, whole = (at - start)[:, None], (end - start)[:, None]
    off: Floats
    off, other = np.empty((2, len(at), len(rows))) if room is None else room
    # mode: without it, numpy takes into memory of its own first.
    np.take(sums, end, axis=0, out=off, mode="clip")
    np.take(sums, start, axis=0, out=other, mode="clip")
    off -= other
    off *= -left / whole
    off -= other
    off += np.take(sums, at, axis=0, out=other, mode="clip")
    off *= np.sqrt(whole / (left * (whole - left)))
    np.abs(off, out=off)
    return off.T


def _tame(rows: Floats) -> Floats:
    """Rows in which single wild values are cut to 4 scaled MADs off the running median of 7."""
    half = _WINDOW // 2
    padded = np.pad(rows, ((0, 0), (half, half)), mode="reflect")
    window = [padded[:, at : at + rows.shape[1]] for at in range(_WINDOW)]
    for low, high in _MEDIAN_OF_7:
        one, other = window[low], window[high]
        window[low], window[high] = np.minimum(one, other), np.maximum(one, other)
    middle = window[half]
    off = rows - middle
    reach = _WILD * _MAD * np.median(np.abs(off), axis=1, keepdims=True)
    tamed = middle + np.clip(off, -reach, reach)
    centred: Floats = tamed - tamed.mean(axis=1, keepdims=True)  # keeps the sums small, and so exact
    return centred


def _describe(logs: Floats, p_values: dict[int, float], margin: float) -> list[ChangePoint]:
    """The changes with their sizes; those below the margin are taken out, the smallest first."""
    tamed = _tame(logs[None, :])[0]
    at = sorted(p_values)
    while True:
        edges = [0, *at, len(logs)]
        sizes = [
            (tamed[middle:end], tamed[begin:middle])
            for begin, middle, end in zip(edges, edges[1:], edges[2:], strict=False)
        ]
        effects = [float(after.mean() - before.mean()) for after, before in sizes]
        small = [index for index, effect in enumerate(effects) if abs(effect) < math.log1p(margin)]
        if not small:
            break
        del at[min(small, key=lambda index: abs(effects[index]))]
    return [
        ChangePoint(place, math.exp(effect), _interval(*parts), p_values[place])
        for place, effect, parts in zip(at, effects, sizes, strict=True)
    ]


def _interval(after: Floats, before: Floats) -> tuple[float, float] | None:
    """Return the interval of exp(mean after - mean before): Welch 1947."""
    parts = [float(part.var(ddof=1)) / len(part) for part in (after, before)]
    if not all(parts):
        return None
    free = [part**2 / (len(samples) - 1) for part, samples in zip(parts, (after, before), strict=True)]
    df = sum(parts) ** 2 / sum(free)
    half = t_quantile(0.975, max(1.0, df)) * math.sqrt(sum(parts))
    middle = float(after.mean() - before.mean())
    return math.exp(middle - half), math.exp(middle + half)
