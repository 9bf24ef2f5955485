"""Interval arithmetic against sets of integers: one element a nanosecond."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from laptime.trace import intervals
from laptime.trace.intervals import Ranges

INSTANT = st.integers(-5, 60)
PAIRS = st.lists(st.tuples(INSTANT, INSTANT), max_size=12)


def ranges(pairs: list[tuple[int, int]]) -> Ranges:
    start, end = (np.array([pair[side] for pair in pairs], np.int64) for side in (0, 1))
    return intervals.union(start, end)


def model(pairs: list[tuple[int, int]]) -> set[int]:
    return {instant for start, end in pairs for instant in range(start, end)}


def members(found: Ranges) -> set[int]:
    return model(list(zip(found.start.tolist(), found.end.tolist(), strict=True)))


def is_canonical(found: Ranges) -> bool:
    """Not empty, sorted, disjoint, and never touching: one set has one form."""
    return bool((found.start < found.end).all() and (found.start[1:] > found.end[:-1]).all())


@given(PAIRS)
def test_a_union_covers_what_its_ranges_cover(pairs: list[tuple[int, int]]) -> None:
    found = ranges(pairs)
    assert members(found) == model(pairs)
    assert found.total == len(model(pairs))
    assert is_canonical(found)
    assert found.start.dtype == found.end.dtype == np.int64


@given(PAIRS, st.randoms())
def test_the_order_of_ranges_does_not_matter(pairs: list[tuple[int, int]], random: object) -> None:
    shuffled = list(pairs)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    for found, expected in zip(ranges(shuffled), ranges(pairs), strict=True):
        assert found.tolist() == expected.tolist()


@given(PAIRS, PAIRS)
def test_sets_join_meet_and_differ(a: list[tuple[int, int]], b: list[tuple[int, int]]) -> None:
    for operation, expected in (
        (intervals.join, model(a) | model(b)),
        (intervals.intersect, model(a) & model(b)),
        (intervals.subtract, model(a) - model(b)),
    ):
        found = operation(ranges(a), ranges(b))
        assert members(found) == expected, operation.__name__
        assert found.total == len(expected), operation.__name__
        assert is_canonical(found), operation.__name__


@given(PAIRS, INSTANT, INSTANT)
def test_a_window_is_its_covered_part_and_its_gaps(
    pairs: list[tuple[int, int]], begin: int, end: int
) -> None:
    window = set(range(begin, end))
    inside, outside = intervals.clip(ranges(pairs), begin, end), intervals.gaps(ranges(pairs), begin, end)
    assert members(inside) == model(pairs) & window
    assert members(outside) == window - model(pairs)
    assert is_canonical(inside)
    assert is_canonical(outside)


@given(PAIRS, st.lists(st.tuples(INSTANT, INSTANT), min_size=1, max_size=6))
def test_every_window_knows_how_much_of_it_is_covered(
    pairs: list[tuple[int, int]], windows: list[tuple[int, int]]
) -> None:
    start, end = (np.array([window[side] for window in windows], np.int64) for side in (0, 1))
    found = intervals.within(ranges(pairs), start, end)
    assert found.tolist() == [len(model(pairs) & set(range(*window))) for window in windows]


@given(PAIRS, st.lists(INSTANT, max_size=6))
def test_time_covered_before_an_instant_counts_up(pairs: list[tuple[int, int]], at: list[int]) -> None:
    found = intervals.cover_before(ranges(pairs), np.array(at, np.int64))
    assert found.tolist() == [sum(instant < limit for instant in model(pairs)) for limit in at]


def test_nanoseconds_of_years_stay_exact() -> None:
    year = 31_536_000_000_000_000
    found = intervals.union(np.array([50 * year, 50 * year + 3]), np.array([50 * year + 1, 50 * year + 4]))
    assert found.total == 2
    assert intervals.within(found, np.array([50 * year]), np.array([50 * year + 4])).tolist() == [2]


@given(st.lists(st.one_of(st.integers(-1, 9), st.integers(-(1 << 60), 1 << 60))))
def test_distinct_codes_are_those_of_a_set(codes: list[int]) -> None:
    assert intervals.distinct(np.array(codes, np.int64)).tolist() == sorted(set(codes))
