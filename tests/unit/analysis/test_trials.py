"""Means over trials: fresh processes that each give one number."""

from __future__ import annotations

import math
import random

import pytest

from laptime.analysis.quantiles import over_trials
from laptime.records.quantity import Quantity


def test_one_and_two_trials_have_no_interval_and_say_so() -> None:
    assert over_trials([7.4]) == (Quantity(7.4), "one trial")
    found = over_trials([1.0, 4.0])
    assert (found.quantity.value, found.quantity.interval) == (pytest.approx(2.0), None)
    assert "2 trials" in found.statistic


def test_the_interval_of_times_never_reaches_below_zero() -> None:
    """The usual mean of these is 7.4 with an interval that begins at -2.8."""
    found = over_trials([3.6, 6.4, 12.0]).quantity
    assert found.low is not None
    assert found.high is not None
    assert 0 < found.low < found.value < found.high


def test_numbers_below_zero_have_the_usual_mean() -> None:
    found = over_trials([-1.0, 0.0, 1.0])
    assert (found.quantity.value, found.statistic) == (0.0, "mean of 3 trials")
    assert found.quantity.interval == (pytest.approx(-2.484, abs=1e-3), pytest.approx(2.484, abs=1e-3))


def test_equal_trials_are_exact() -> None:
    assert over_trials([10.0, 10.0, 10.0]).quantity == Quantity(10.0, 10.0, 10.0, 3)


@pytest.mark.parametrize("n", [3, 5, 10])
def test_the_interval_holds_the_truth_in_95_of_100_runs(n: int) -> None:
    dice, held = random.Random(18), 0
    for _ in range(2000):
        ends = over_trials([math.exp(dice.gauss(1.0, 0.3)) for _ in range(n)]).quantity.interval
        assert ends is not None
        held += ends[0] <= math.e <= ends[1]
    assert 0.935 <= held / 2000 <= 0.965
