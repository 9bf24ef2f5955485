"""Quantiles of Student's t against printed tables and against values of 40 digits."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import pytest

from laptime.analysis.student_t import t_quantile

TABLE = Path(__file__).parents[2] / "data" / "student_t.csv"


@pytest.mark.parametrize(
    ("p", "df", "value"),
    [
        # Tables of Student's t: Abramowitz & Stegun 26.10.
        (0.975, 1, 12.706),
        (0.975, 2, 4.303),
        (0.975, 3, 3.182),
        (0.975, 4, 2.776),
        (0.975, 5, 2.571),
        (0.975, 6, 2.447),
        (0.975, 10, 2.228),
        (0.975, 30, 2.042),
        (0.975, 120, 1.980),
        (0.995, 1, 63.657),
        (0.995, 4, 4.604),
        (0.995, 6, 3.707),
        (0.995, 8, 3.355),
        (0.95, 4, 2.132),
        (0.80, 6, 0.906),
        (0.75, 3, 0.765),
        (0.60, 5, 0.267),
    ],
)
def test_t_quantile_has_the_values_of_the_tables(p: float, df: float, value: float) -> None:
    assert t_quantile(p, df) == pytest.approx(value, abs=6e-4)


def test_t_quantile_falls_with_its_degrees_of_freedom_to_the_normal() -> None:
    values = [t_quantile(0.975, df) for df in (1, 1.5, 2, 3, 4, 4.5, 7, 20, 200, 1e5)]
    assert values == sorted(values, reverse=True)
    assert values[-1] == pytest.approx(1.95996, rel=1e-4)


def test_t_quantile_is_exact_to_nine_digits_for_fractional_degrees_of_freedom_too() -> None:
    """tests/data/student_t.csv is from mpmath 1.3 with 40 digits: the root in log t of

        log(betainc(df/2, 1/2, 0, df/(df + t^2), regularized=True) / 2) = log(1 - p)

    with p as the nearest double; scipy.stats.t.ppf(0.975, 1.05) = 11.36 is among them.
    """
    rows = list(csv.DictReader(TABLE.open()))
    assert len(rows) == 187
    for row in rows:
        p, df, t = float(row["p"]), float(row["df"]), float(row["t"])
        assert t_quantile(p, df) == pytest.approx(t, rel=1e-9), row
        assert t_quantile(1 - p, df) == pytest.approx(-t, rel=1e-8), row


def test_t_quantile_of_one_and_two_degrees_has_a_closed_form() -> None:
    for p in (0.5, 0.6, 0.9, 0.999):
        assert t_quantile(p, 1) == pytest.approx(math.tan(math.pi * (p - 0.5)), rel=1e-12)
        assert t_quantile(p, 2) == pytest.approx((2 * p - 1) * math.sqrt(1 / (2 * p * (1 - p))), rel=1e-12)


@pytest.mark.parametrize(("p", "df"), [(0.0, 3), (1.0, 3), (0.5, 0), (0.9, -1), (math.nan, 3)])
def test_there_is_no_quantile_outside_the_distribution(p: float, df: float) -> None:
    with pytest.raises(ValueError, match="no quantile"):
        t_quantile(p, df)
