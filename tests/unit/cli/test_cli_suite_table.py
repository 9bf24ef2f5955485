"""The table of a suite: one regime a column, or each number with its own."""

from __future__ import annotations

from msgspec import structs

from fixtures import runs
from laptime.apps.cli.suite_commands.run import _text
from laptime.kit.text import count
from laptime.records.series import Series


def blocks(level: float) -> Series:
    """Blocks of ten calls back to back."""
    series = runs.timings(level, regime="saturated", n=60)
    return structs.replace(series, calls=[10] * len(series.samples))


def table(*cases: tuple[Series, ...]) -> list[str]:
    made = [runs.case(*series, target=f"a:m{number}") for number, series in enumerate(cases)]
    answer, _, *lines = _text(runs.run(*made)).splitlines()
    assert answer == f"measured: {count(len(made), 'case')}, no limit to keep"
    return lines


def test_numbers_of_one_column_have_one_regime() -> None:
    head, both, one = table((runs.timings(0.02), blocks(0.0165)), (runs.timings(0.04),))[:3]
    assert "latency, isolated" in head
    assert "items/s, isolated" in head
    assert "49.9" in both  # 1 / 20 ms, although the blocks would give 61 a second
    assert "24.97" in one


def test_where_none_is_shared_every_number_names_its_own() -> None:
    head, first, second = table((runs.timings(0.02),), (blocks(0.0165),))[:3]
    assert "," not in head
    assert "ms isolated" in first
    assert "ms saturated" in second
