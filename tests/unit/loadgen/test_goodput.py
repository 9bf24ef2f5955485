"""Requests per second that kept a promise: those of an M/M/1 queue are a closed form."""

from __future__ import annotations

import math

from fixtures.virtual_load import constant, exponential, level


def good(
    rate: float, slo: str, seconds: float = 400, *, is_constant: bool = False
) -> tuple[float, ...] | None:
    service = constant(0.02) if is_constant else exponential(0.02, 7)
    facts = level(rate, seconds, service, 3, slo=slo).details.load
    assert facts is not None
    return facts.goodput


def test_goodput_is_the_share_of_the_closed_form() -> None:
    value, low, high = good(25, "latency=50ms@median") or (0.0, 0.0, 0.0)
    truth = 25 * (1 - math.exp(-(50 - 25) * 0.05))
    assert low <= truth <= high
    assert abs(value / truth - 1) < 0.1
    assert high - low < 0.2 * truth


def test_where_all_keep_the_promise_the_lower_end_still_doubts() -> None:
    value, low, high = good(10, "latency=5s@p99", 30, is_constant=True) or (0.0, 0.0, 0.0)
    assert 8 < value < 13
    assert low < value == high


def test_where_none_does_goodput_is_zero_and_a_growing_queue_has_none() -> None:
    assert (good(10, "latency=1ms@p99", 30, is_constant=True) or (1.0,))[0] == 0
    assert good(60, "latency=1s@p99", 20, is_constant=True) is None
