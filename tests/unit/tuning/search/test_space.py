"""A climb goes where options win, and ends."""

from __future__ import annotations

import pytest

from laptime.tuning.optimization import Change
from laptime.tuning.search.ranking import Climb

LINE = tuple(Change("num_workers", {"value": value}) for value in (1, 2, 4, 6, 8, 12))


def climb(best: int, start: int, line: tuple[Change, ...] = LINE) -> tuple[list[int], int]:
    """Values raced, and the one kept, where the truth rises to `best` and falls behind it; 0: the script."""
    kept, raced = 0, []
    walk = Climb(line, Change("num_workers", {"value": start}))
    for change in walk:
        value = change.options["value"]
        raced.append(value)
        won = abs(value - best) < abs(kept - best)
        walk.record(change, "faster" if won else "slower", kept=won)
        kept = value if won else kept
    return raced, kept


@pytest.mark.parametrize("best", [1, 2, 4, 6, 8, 12])
@pytest.mark.parametrize("start", [1, 2, 4, 6, 8, 12])
def test_it_ends_at_the_best_option_of_a_line_with_one_top(best: int, start: int) -> None:
    raced, kept = climb(best, start)
    assert len(raced) == len(set(raced)) <= 6
    if abs(start - best) < best:  # the recommended option is better than nothing
        assert kept == best


def test_nothing_above_is_raced_when_less_is_what_helps() -> None:
    assert climb(2, 4)[0] == [4, 6, 2, 1] or climb(2, 4)[0] == [4, 2, 1]


def test_a_failed_start_is_followed_by_less_only() -> None:
    walk, raced = Climb(LINE, LINE[3]), []
    for change in walk:
        raced.append(change.options["value"])
        walk.record(change, "failed", kept=False)
    assert raced == [6, 4]


def test_an_unclear_start_looks_to_both_sides_once() -> None:
    walk, raced = Climb(LINE, LINE[2]), []
    for change in walk:
        raced.append(change.options["value"])
        walk.record(change, "unclear", kept=False)
    assert raced == [4, 6, 2]


def test_a_winner_whose_gate_failed_ends_its_direction() -> None:
    walk, raced = Climb(LINE, LINE[2]), []
    for change in walk:
        raced.append(change.options["value"])
        walk.record(change, "faster", kept=change == LINE[2])
    assert raced == [4, 6, 2]


def test_what_is_not_told_is_not_asked_for_again() -> None:
    assert len(list(Climb(LINE, LINE[2]))) <= 3
    assert list(Climb((LINE[0],), LINE[0])) == [LINE[0]]
