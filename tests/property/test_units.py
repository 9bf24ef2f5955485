"""Laws of showing numbers, for any number."""

from __future__ import annotations

import math
import re
from decimal import Decimal

from hypothesis import assume, given
from hypothesis import strategies as st

from laptime.kit.units import scale, show, show_interval

UNITS = st.sampled_from(["s", "B", "B/s", "FLOP", "MAC", "FLOP/s", "J", "W", "Hz", "1/s", "1", "ratio", "K"])
POSITIVE = st.floats(min_value=1e-8, max_value=1e15, allow_nan=False)
NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")


def read_back(text: str, value: float, unit: str) -> float:
    found = NUMBER.match(text)
    assert found is not None
    return float(found[0].replace(",", "")) * scale(value, unit)[0]


@given(POSITIVE, UNITS)
def test_what_is_shown_is_the_value_to_three_figures(value: float, unit: str) -> None:
    factor = scale(value, unit)[0]
    assume(value / factor >= 1e-4)  # finer than six decimals of the smallest unit is not shown
    assert math.isclose(read_back(show(value, unit), value, unit), value, rel_tol=0.0051)


@given(POSITIVE, POSITIVE, UNITS)
def test_a_larger_value_never_gets_a_smaller_unit(a: float, b: float, unit: str) -> None:
    smaller, larger = sorted((a, b))
    assert scale(smaller, unit)[0] <= scale(larger, unit)[0]


@given(POSITIVE, UNITS, st.floats(min_value=1e-5, max_value=0.9))
def test_the_last_digit_shown_is_where_the_half_width_begins(value: float, unit: str, share: float) -> None:
    ci95 = (value * (1 - share), value * (1 + share))
    factor = scale(value, unit)[0]
    half = (ci95[1] - ci95[0]) / 2 / factor
    assume(half >= 1e-6)  # six decimals are the most that is ever shown
    assume(not (unit == "1" and factor == 1.0 and value.is_integer()))  # counts are exact
    found = NUMBER.match(show(value, unit, ci95))
    assert found is not None
    shown = Decimal(found[0].replace(",", ""))
    step = Decimal(10) ** math.floor(math.log10(half))
    assert shown % step == 0, "finer than the interval supports"
    assert abs(shown - Decimal(value / factor)) <= step * Decimal("0.5000001"), "coarser than it supports"


@given(POSITIVE, UNITS, st.floats(min_value=1e-5, max_value=0.9))
def test_an_interval_holds_its_value_to_the_digits_shown(value: float, unit: str, share: float) -> None:
    half = value * share
    text = show_interval((value - half, value + half), value, unit)
    low, high = (float(end.replace(",", "")) for end in NUMBER.findall(text)[:2])
    shown = value / scale(value, unit)[0]
    step = 10.0 ** -len(NUMBER.findall(text)[0].partition(".")[2])
    assert low - step <= shown <= high + step
