"""The wider interval of a quantile: of many calls whose level shifts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fixtures import shifting_calls
from laptime.analysis import quantiles, shifting_level
from laptime.analysis.quantiles import Floats

CALLS = 12_000


def calls(seed: int, *, level: float = 0.02, number: int = CALLS) -> Floats:
    """Calls of about a millisecond in processes of a level each."""
    dice = np.random.default_rng(seed)
    return np.asarray(1e-3 * shifting_calls.with_tail(dice, shifting_calls.of_processes(dice, number, level)))


def test_it_is_the_usual_one_where_there_is_one() -> None:
    independent = np.random.default_rng(0).lognormal(sigma=0.1, size=3000)
    assert shifting_level.interval(independent, 0.99) == quantiles.interval(independent, 0.99)


def test_calls_that_are_worth_few_have_one_and_it_is_far_from_a_far_limit() -> None:
    made = calls(1)
    assert quantiles.interval(made, 0.99) is None
    low, high = shifting_level.interval(made, 0.99) or (0.0, 1.0)
    assert low < quantiles.quantile(made, 0.99) < high < 4e-3


@pytest.mark.parametrize("level", [0.02, 0.1])
def test_it_covers_the_quantile_of_all_processes(level: float) -> None:
    truth = float(np.quantile(np.concatenate([calls(seed, level=level) for seed in range(1000, 1200)]), 0.99))
    intervals = [
        ends for seed in range(100) if (ends := shifting_level.interval(calls(seed, level=level), 0.99))
    ]
    assert len(intervals) >= 50
    assert sum(low <= truth <= high for low, high in intervals) >= 0.95 * len(intervals)


@pytest.mark.parametrize(
    "few", [calls(0, number=1990), calls(0, number=2990), np.array([])], ids=["calls", "of the tail", "none"]
)
def test_few_calls_have_none(few: Any) -> None:
    assert shifting_level.interval(few, 0.99) is None


def test_a_clock_that_changed_once_leaves_a_wide_interval() -> None:
    """All but the last processes took 2.1 ms a call, those 1.6 ms: as seen on a virtual machine."""
    changed = np.where(np.arange(CALLS) < 0.6 * CALLS, 2.1, 1.6) * calls(0, level=0.01)
    assert quantiles.interval(changed, 0.99) is None
    low, high = shifting_level.interval(changed, 0.99) or (0.0, 1.0)
    assert low < 1.5e-3 < 5e-3 < high < 20e-3
