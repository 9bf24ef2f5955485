"""Worked examples, each computed by hand on paper first, and laws that any numbers keep."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laptime.pricing import formulas
from laptime.records.quantity import Quantity

AMOUNTS = st.floats(1e-3, 1e6)
RATES = st.floats(1e-6, 1e9)


def cost(price: float, rate: float, utilization: float = 1.0) -> float:
    return formulas.per_million(price, Quantity(rate), utilization).value


@pytest.mark.parametrize(
    ("price", "rate", "cents"),
    [
        # 1.006 / (3600 x 2500) x 1e6 = 1006 / 9000 = 0.11178
        (1.006, 2500, 0.11178),
        # 10 / (3600 x 14000) x 1e6 = 10 / 50.4 = 0.19841
        (10.0, 14000, 0.19841),
        # 3.99 / 50.4 = 0.07917
        (3.99, 14000, 0.07917),
        # 0.448 / (3600 x 40) x 1e6 = 448000 / 144000 = 3.1111
        (0.448, 40, 3.11111),
    ],
)
def test_usd_per_million_is_as_by_hand(price: float, rate: float, cents: float) -> None:
    assert cost(price, rate) == pytest.approx(cents, abs=5e-6)


def test_the_bill_of_the_article_is_as_by_hand() -> None:
    # 16 OCPU x 0.025 + 32 GB x 0.0015 = 0.448; 16 x 0.025 + 256 x 0.0015 = 0.784 USD/h
    small, whole = 16 * 0.025 + 32 * 0.0015, 16 * 0.025 + 256 * 0.0015
    assert round(formulas.per_month(small), 2) == 327.04
    assert round(formulas.per_month(whole), 2) == 572.32
    assert round(750 * whole, 2) == 588.00
    assert round(formulas.per_month(1.536), 2) == 1121.28
    assert round(750 * 1.536, 2) == 1152.00


def test_a_training_is_as_by_hand() -> None:
    # ImageNet: 1,281,167 / 2500 = 512.4668 s = 0.1423519 h; x 1.006 = 0.143206 USD an epoch; x 90 = 12.88854
    cost = formulas.training(1.006, Quantity(2500, 2400, 2600), 1_281_167, 90)
    assert cost.usd_per_epoch == pytest.approx(0.143206, abs=1e-6)
    assert round(cost.usd, 2) == 12.89
    assert cost.hours == pytest.approx(12.811670, abs=1e-6)
    assert cost.ci95 is not None
    assert cost.ci95 == pytest.approx((12.39282, 13.42556), abs=1e-5)  # 12.88854 x 2500/2600, x 2500/2400


def test_a_month_at_a_rate_is_as_by_hand() -> None:
    # 100 of 2500 calls a second: 4 %; 1.006 x 730 = 734.38; 1.006 x 1e6 / (3600 x 100) = 2.79444
    one = formulas.monthly(1.006, 2500, 100)
    assert (one.machines, round(one.usd, 2), round(one.utilization, 4)) == (1, 734.38, 0.04)
    assert one.usd_per_million == pytest.approx(2.794444, abs=1e-6)
    # 6000 a second need three; 6000 / 7500 = 80 %; 3 x 734.38 = 2203.14
    three = formulas.monthly(1.006, 2500, 6000)
    assert (three.machines, round(three.usd, 2), round(three.utilization, 4)) == (3, 2203.14, 0.8)


def test_exactly_full_machines_are_enough() -> None:
    assert formulas.monthly(1.0, 10.0, 30.0).machines == 3


def test_the_interval_of_a_cost_is_that_of_the_rate_turned_over() -> None:
    found = formulas.per_million(3.6, Quantity(12.5, 10.0, 20.0, unit="1/s"))
    assert (found.value, found.unit) == (pytest.approx(80.0), "USD")
    assert found.interval == pytest.approx((50.0, 100.0))
    assert formulas.per_million(3.6, Quantity(12.5)).interval is None
    assert formulas.per_million(3.6, Quantity(12.5, 0.0, math.inf)).interval == (0.0, math.inf)


@given(AMOUNTS, RATES)
def test_twice_the_price_is_twice_the_cost(price: float, rate: float) -> None:
    assert cost(2 * price, rate) == pytest.approx(2 * cost(price, rate))
    assert formulas.per_usd(2 * price, rate) == pytest.approx(formulas.per_usd(price, rate) / 2)


@given(AMOUNTS, RATES, st.floats(0.01, 1.0))
def test_half_the_utilization_is_twice_the_cost(price: float, rate: float, share: float) -> None:
    assert cost(price, rate, share / 2) == pytest.approx(2 * cost(price, rate, share))


@given(AMOUNTS, RATES)
def test_cost_and_units_per_usd_are_one_fact(price: float, rate: float) -> None:
    assert cost(price, rate) * formulas.per_usd(price, rate) == pytest.approx(1e6)


@given(AMOUNTS, RATES, RATES)
def test_a_month_costs_at_least_what_its_calls_cost_at_saturation(
    price: float, rate: float, wanted: float
) -> None:
    month = formulas.monthly(price, rate, wanted)
    assert 0 < month.utilization <= 1 + 1e-6
    assert month.usd_per_million >= cost(price, rate) * (1 - 1e-6)
