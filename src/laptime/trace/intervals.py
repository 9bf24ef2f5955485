"""Arithmetic on sets of half-open ranges [start, end) in integer nanoseconds.

A set is a `Ranges`: sorted, without overlaps, without empty ranges; touching ranges are joined. `union` makes
one from any arrays. All results are exact.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from laptime.trace.columns import Ints


class Ranges(NamedTuple):
    """Sorted, disjoint ranges; int64 arrays of one length."""

    start: Ints
    end: Ints

    @property
    def total(self) -> int:
        """Covered ns."""
        return int((self.end - self.start).sum())


EMPTY = Ranges(np.empty(0, np.int64), np.empty(0, np.int64))


def union(start: Ints, end: Ints) -> Ranges:
    """The set that ranges in any order and overlap cover."""
    real = end > start
    start, end = start[real], end[real]
    if not len(start):
        return EMPTY
    order = np.argsort(start, kind="stable")
    start, end = start[order], np.maximum.accumulate(end[order])
    first = np.empty(len(start), bool)
    first[0] = True
    np.greater(start[1:], end[:-1], out=first[1:])
    return Ranges(start[first], end[np.append(np.flatnonzero(first)[1:] - 1, len(end) - 1)])


def join(*sets: Ranges) -> Ranges:
    """What any of the sets covers."""
    return union(np.concatenate([each.start for each in sets]), np.concatenate([each.end for each in sets]))


def clip(ranges: Ranges, begin: int, end: int) -> Ranges:
    """The part inside [begin, end)."""
    low, high = np.maximum(ranges.start, begin), np.minimum(ranges.end, end)
    keep = high > low
    return Ranges(low[keep], high[keep])


def gaps(ranges: Ranges, begin: int, end: int) -> Ranges:
    """What is not covered inside [begin, end)."""
    if end <= begin:
        return EMPTY
    inside = clip(ranges, begin, end)
    start, stop = np.append(begin, inside.end), np.append(inside.start, end)
    keep = stop > start
    return Ranges(start[keep], stop[keep])


def subtract(a: Ranges, b: Ranges) -> Ranges:
    """What a covers and b does not."""
    if not len(a.start):
        return EMPTY
    return intersect(a, gaps(b, int(a.start[0]), int(a.end[-1])))


def intersect(a: Ranges, b: Ranges) -> Ranges:
    """What both cover."""
    if not len(a.start) or not len(b.start):
        return EMPTY
    # Range i of a meets those of b from the first that ends after its start to the last before its end.
    first = np.searchsorted(b.end, a.start, side="right")
    last = np.searchsorted(b.start, a.end, side="left")
    number = np.maximum(last - first, 0)
    left = np.repeat(np.arange(len(a.start)), number)
    offset = np.arange(number.sum()) - np.repeat(np.cumsum(number) - number, number)
    right = first[left] + offset
    return Ranges(np.maximum(a.start[left], b.start[right]), np.minimum(a.end[left], b.end[right]))


def covered(ranges: Ranges, at: Ints) -> Ints:
    """For every instant: how many ns before it the set covers."""
    before = np.append(0, np.cumsum(ranges.end - ranges.start))
    index = np.searchsorted(ranges.start, at, side="right")
    whole = before[index]
    over = np.where(index > 0, np.maximum(ranges.end[index - 1] - at, 0) if len(ranges.end) else 0, 0)
    return np.asarray(whole - over, np.int64)


def within(ranges: Ranges, start: Ints, end: Ints) -> Ints:
    """For every window [start, end): ns of it that the set covers."""
    return covered(ranges, np.maximum(start, end)) - covered(ranges, start)
