"""The knee is told where paired rounds prove it, and nowhere else."""

from __future__ import annotations

import math
import random

import pytest
from msgspec import structs

from fixtures.runs import LATENCY, case
from laptime.analysis.knee import find_knee
from laptime.records.case import Case
from laptime.records.series import Label, Series


def sizes(
    rates: dict[int, float], *, noise: float = 0.002, rounds: int = 8, drift: float = 0.0
) -> list[Case]:
    """Cases of these throughputs, measured in rounds that all of them share."""
    dice = random.Random(5)
    speeds = [math.exp(dice.gauss(0, drift)) for _ in range(rounds)]
    cases = []
    for batch, rate in rates.items():
        samples = [
            batch / rate * speed * math.exp(dice.gauss(0, noise)) for speed in speeds for _ in range(5)
        ]
        numbers = [number for number in range(rounds) for _ in range(5)]
        series = Series(metric=LATENCY, regime="saturated", samples=samples, round=numbers)
        cases.append(case(series, axes={"batch": batch}))
    return cases


RISING_THEN_FLAT = {1: 100, 2: 180, 4: 199, 8: 200, 16: 200.5}


def test_the_smallest_that_is_surely_within_three_percent() -> None:
    found = find_knee(sizes(RISING_THEN_FLAT), ["saturated"])
    assert found == (4, [4], False)


def test_drift_that_all_sizes_share_hides_nothing() -> None:
    assert find_knee(sizes(RISING_THEN_FLAT, drift=0.2), ["saturated"]).batch == 4


def test_what_lies_at_the_edge_is_left_open() -> None:
    """2.9 % below the best: within, but nobody could prove that."""
    found = find_knee(sizes({**RISING_THEN_FLAT, 2: 194.5}), ["saturated"])
    assert found.batch is None
    assert found.candidates == [2, 4]


@pytest.mark.parametrize("how", [{"noise": 0.3}, {"rounds": 4}], ids=["noise", "few rounds"])
def test_thin_evidence_decides_nothing(how: dict[str, float]) -> None:
    found = find_knee(sizes(RISING_THEN_FLAT, **how), ["saturated"])  # type: ignore[arg-type]
    assert found.batch is None
    assert len(found.candidates) >= 3
    assert not found.is_rising


def test_disturbed_sizes_decide_nothing() -> None:
    crowded = [
        structs.replace(c, series=[structs.replace(c.series[0], label=[int(Label.WAITED)] * 40)])
        for c in sizes(RISING_THEN_FLAT)
    ]
    assert find_knee(crowded, ["saturated"]).candidates == [1, 2, 4, 8, 16]


def test_what_still_rises_is_seen() -> None:
    assert find_knee(sizes({32: 100, 37: 105.7}), ["saturated"]).is_rising
    assert not find_knee(sizes({32: 100, 37: 100.3}), ["saturated"]).is_rising
