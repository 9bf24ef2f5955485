"""Digits follow the interval; units are chosen for people."""

from __future__ import annotations

import math

import pytest

from laptime.kit.units import decimals, estimate, scale, show, show_interval


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (0.02631, "s", "26.3 ms"),
        (1.5e-6, "s", "1.50 us"),
        (0.00099951, "s", "1.00 ms"),
        (0.9994, "s", "999 ms"),
        (90.0, "s", "90.0 s"),
        (119.0, "s", "119 s"),
        (120.0, "s", "2.00 min"),
        (0.0, "s", "0 s"),
        (3 * 2.0**30, "B", "3.00 GiB"),
        (512.0, "B", "512 B"),
        (3.86e8, "MAC", "386 MMAC"),
        (0.77e9, "FLOP", "770 MFLOP"),
        (1.2e11, "FLOP/s", "120 GFLOP/s"),
        (0.42, "ratio", "42.0 %"),
        (0.0004, "ratio", "0.0400 %"),
        (38.0, "1/s", "38.0/s"),
        (5_288_548.0, "1", "5.29 M"),
        (100.0, "1", "100"),
        (0.35, "J", "350 mJ"),
    ],
)
def test_values_are_shown_in_a_readable_unit_with_three_figures(value: float, unit: str, shown: str) -> None:
    assert show(value, unit) == shown


def test_unknown_units_are_shown_as_they_are() -> None:
    assert show(12.5, "furlong") == "12.5 furlong"


def test_nothing_known_is_a_dash_and_never_zero() -> None:
    assert show(None, "J") == "-"
    assert show_interval(None, 1.0, "s") == "-"


@pytest.mark.parametrize(
    ("half", "shown"),
    [
        (0.0000004, "26.3147 ms"),
        (0.00004, "26.31 ms"),
        (0.0004, "26.3 ms"),
        (0.003, "26 ms"),
        (0.2, "26 ms"),
    ],
)
def test_the_last_digit_shown_is_the_first_digit_of_the_half_width(half: float, shown: str) -> None:
    assert show(0.0263147, "s", (0.0263147 - half, 0.0263147 + half)) == shown


def test_whole_digits_are_rounded_too_when_the_interval_covers_them() -> None:
    assert show(2113.0, "1/s", (2073.0, 2153.0)) == "2,110/s"
    assert show(2113.0, "1/s", (1713.0, 2513.0)) == "2,100/s"


def test_an_interval_is_shown_in_the_unit_of_its_value() -> None:
    assert show_interval((0.95, 1.05), 0.99, "s") == "[950, 1,050] ms"
    assert show_interval((0.0259, 0.0268), 0.0263, "s") == "[25.9, 26.8] ms"
    assert show_interval((0.0004, 0.0036), 0.0019, "s") == "[0.4, 4] ms"  # not [0, 4]: a call takes time


@pytest.mark.parametrize(
    ("value", "ends", "shown", "interval"),
    [
        (0.000996, (0.000984, 0.001008), "1.00 ms", "[0.98, 1.01] ms"),
        (0.98, (0.88, 1.08), "1.0 s", "[0.9, 1.1] s"),
        (0.0009993, (0.0009988, 0.0009998), "999.3 us", "[998.8, 999.8] us"),
        (119.0, (100.0, 138.0), "2.0 min", "[1.7, 2.3] min"),
        (0.4, (0.1, math.inf), "400 ms", "[100, inf) ms"),
    ],
)
def test_what_its_interval_rounds_up_to_a_thousand_has_the_larger_unit(
    value: float, ends: tuple[float, float], shown: str, interval: str
) -> None:
    assert (show(value, "s", ends), show_interval(ends, value, "s")) == (shown, interval)


def test_an_open_interval_says_so() -> None:
    assert show_interval((0.02, math.inf), 0.0263, "s") == "[20.0, inf) ms"


def test_an_infinite_half_width_falls_back_to_three_figures() -> None:
    assert decimals(26.3147, math.inf) == 1
    assert show(0.0263147, "s", (0.02, math.inf)) == "26.3 ms"


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_what_is_not_finite_is_shown_without_a_unit(value: float) -> None:
    assert show(value, "s") == str(value)


def test_a_scale_of_zero_is_the_base_unit() -> None:
    assert scale(0.0, "s") == (1.0, "s")
    assert scale(0.0, "B") == (1.0, "B")
    assert scale(0.0, "ratio") == (1e-2, "%")


def test_what_is_no_zero_is_not_shown_as_one() -> None:
    assert show(0.4, "1/s", (-40.0, 40.0)) == "0.4/s"
    assert show(3e-6, "s", (-1.0, 1.0)) == "3 us"
    assert show(0.0, "1/s") == "0/s"


@pytest.mark.parametrize(
    ("text", "interval", "both"),
    [
        ("26.3 ms", "[25.9, 26.8] ms", "26.3 [25.9, 26.8] ms"),
        ("38.0/s", "[37.9, 38.0]/s", "38.0 [37.9, 38.0]/s"),
        ("26.3 ms", "[20.0, inf) ms", "26.3 [20.0, inf) ms"),
        ("6.22 USD", "[6, 7]", "6.22 USD [6, 7]"),
        ("7", "[6, 8]", "7 [6, 8]"),
        ("26.3 ms", "-", "26.3 ms"),
        ("26.3 ms", "", "26.3 ms"),
    ],
)
def test_a_value_and_its_interval_have_their_unit_once(text: str, interval: str, both: str) -> None:
    assert estimate(text, interval) == both


def test_the_largest_numbers_are_shown() -> None:
    """A number next to the largest float overflowed in the count of its digits."""
    assert show(1.7e308, "/s").endswith("/s")
    assert show(-1.7e308, "s").startswith("-")
