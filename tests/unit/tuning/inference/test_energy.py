"""Energy of what was measured on the way: read around blocks, per item, on the front where all have it."""

from __future__ import annotations

from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import pytest

from laptime.probes.energy import CounterMeter
from laptime.records.tuning import Point
from laptime.tuning.inference.evaluator import ModelEvaluator
from laptime.tuning.inference.final_set import points, with_front
from laptime.tuning.inference.request import ModelRequest
from laptime.tuning.inference.sides import Timing
from laptime.tuning.optimization import Recipe


def timed_with(readings: list[float | None], *, period: float = 0.0) -> ModelEvaluator:
    """An evaluator that has timed two blocks of four calls of two items beside such a counter."""
    left = iter(readings)
    meter = CounterMeter("fake", lambda: next(left), device="cpu", covers="a fake", period=period)
    made: Any = object.__new__(ModelEvaluator)
    made.request = ModelRequest(target="x")
    made.limits, made.meters, made.surveyed = made.request.limits, [meter], {"batch": 2}
    made.timings, made.ratios = defaultdict(Timing), {}
    arm: Any = SimpleNamespace(seconds=lambda calls: [0.01] * calls, peak=1)
    for _ in range(2):
        assert made.time_calls(Recipe(), arm, 4) == [0.01] * 4
    return made


@pytest.mark.parametrize(
    ("readings", "period", "energy"),
    [
        ([100.0, 108.0, 200.0, 208.0], 0.0, 1.0),
        ([100.0, 108.0, 200.0, None], 0.0, 1.0),  # the second block has no reading, and does not count
        ([None, None, None, None], 0.0, None),
        ([100.0, 108.0, 200.0, 208.0], 1.0, None),  # too slow a meter for blocks of this length
    ],
)
def test_joules_an_item(readings: list[float | None], period: float, energy: float | None) -> None:
    (point,) = points(timed_with(readings, period=period), Recipe())
    assert point.energy == energy


def test_energy_takes_part_in_the_front_where_all_points_have_it() -> None:
    quick = Point(label="quick", latency=1.0, throughput=1.0, peak=1, energy=5.0)
    frugal = Point(label="frugal", latency=2.0, throughput=0.5, peak=1, energy=3.0)
    poor = Point(label="poor", latency=2.0, throughput=0.5, peak=1, energy=6.0)
    assert [each.front for each in with_front([quick, frugal, poor])] == [True, True, False]
    unread = Point(label="unread", latency=3.0, throughput=0.4, peak=2)
    assert [each.front for each in with_front([quick, frugal, unread])] == [True, False, False]
