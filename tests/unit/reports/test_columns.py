"""Values in tables: one unit for what is compared, digits that tell; alone, each with its own unit."""

import pytest

from laptime.reports.document import Cell, Column, Facts
from laptime.reports.shown import alone, blocks, in_columns

MS = 1_000_000


@pytest.mark.parametrize(
    ("kind", "values", "unit", "texts"),
    [
        ("time", [262_000_000, 5_900_000, 20_000], "ms", ["262.0", "5.9", "<0.1"]),
        ("time", [1_500, 20], "us", ["1.500", "0.020"]),
        ("short", [1_017_000, 4_000, 3_000], "us", ["1,017.0", "4.0", "3.0"]),
        ("short", [9_000_000_000, 3_000, 3_000], "s", ["9.000", "<0.001", "<0.001"]),
        ("bytes", [3 * 2**30, 0], "GiB", ["3.000", "0.000"]),
        ("share", [0.5, 0.118, None], "%", ["50", "12", ""]),
        ("count", [1_932, 3], "", ["1,932", "3"]),
        ("rate", [6.9e9, 1e9], "GB/s", ["6.900", "1.000"]),
        ("time", [-26_000_000, 1_500_000, -1], "ms", ["-26.00", "1.50", ">-0.01"]),
        ("change", [-26_000_000, 1_500_000, 0], "ms", ["-26.00", "+1.50", "0.00"]),
        ("share", [0.2, -0.0], "%", ["20", "0"]),
        ("number", [98.0, None, 1_204.0], "", ["98", "", "1,204"]),
        ("number", [98.0, 1.5], "", ["98.00", "1.50"]),
        ("text", ["yes", ""], "", ["yes", ""]),
    ],
)
def test_a_column_has_one_unit_and_the_digits_of_its_largest(kind, values, unit, texts):
    (column,) = in_columns([Column(title="x", kind=kind)], [[value] for value in values])
    assert (column.unit, column.cells) == (unit, texts)


def test_columns_of_one_kind_share_their_unit():
    columns = [Column(title="name"), Column(title="self", kind="time"), Column(title="total", kind="time")]
    assert [each.unit for each in in_columns(columns, [["a", 900_000, 40_000_000]])] == ["", "ms", "ms"]


def test_bars_are_shares_of_the_largest():
    column = Column(title="x", kind="time", bar=True)
    assert in_columns([column], [[200], [50], [None]])[0].bars == [100, 25, 0]
    assert in_columns([Column(title="x", kind="time")], [[200]])[0].bars == [0]


def test_ready_cells_stay_as_they_are():
    (column,) = in_columns([Column(title="x", bar=True)], [[Cell(text="2.00x", value=2.0)], [Cell(text="-")]])
    assert column.cells == ["2.00x", "-"]
    assert column.bars == [100, 0]
    assert alone("time", Cell(text="2.00x")) == "2.00x"


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("time", 262 * MS, "262 ms"),
        ("short", 97_500, "97.5 us"),
        ("change", -26 * MS, "-26.0 ms"),
        ("change", MS, "+1.00 ms"),
        ("change", 0, "0 s"),
        ("time", None, "-"),
        ("text", "", "-"),
        ("bytes", 12, "12 B"),
        ("bytes", 2**30, "1.00 GiB"),
        ("rate", 6.9e9, "6.90 GB/s"),
        ("share", 0.43, "43 %"),
        ("count", 5420, "5,420"),
        ("number", 1.23456, "1.23"),
        ("code", "a\x1b[2J", "a\\x1b[2J"),
    ],
)
def test_alone_a_value_has_its_own_unit(kind, value, text):
    assert alone(kind, value) == text


def test_shares_have_no_exponent():
    assert alone("share", 0) == "0 %"
    assert alone("share", 1e-7) == "<0.01 %"
    assert alone("share", 0.0996) == "10 %"
    assert alone("share", -0.246) == "-25 %"
    assert alone("share", -0.06) == "-6.0 %"


def test_a_fact_without_a_text_is_left_out():
    kept, empty = ("gate", "passed"), ("left out", "")
    assert blocks([Facts([kept, empty]), Facts([empty])], "terminal") == [Facts([kept])]
