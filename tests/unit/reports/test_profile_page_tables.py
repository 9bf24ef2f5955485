"""Tables of the page: one unit for what is compared, digits that tell, nothing lost without a word."""

import pytest

from laptime.reports._profile.grid import Column, Row, table


def _cells(kind, values, **options):
    made = table("t", [Column("name"), Column("x", kind, **options)], [Row(str(v), ["n", v]) for v in values])
    return made.heads[1].unit, [line.cells[0].text for line in made.lines]


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
        ("share", [0.2, -0.0], "%", ["20", "0"]),
    ],
)
def test_a_column_has_one_unit_and_the_digits_of_its_largest(kind, values, unit, texts):
    assert _cells(kind, values) == (unit, texts)


def test_columns_of_one_kind_share_their_unit():
    columns = [Column("name"), Column("self", "time"), Column("total", "time")]
    made = table("t", columns, [Row("a", ["a", 900_000, 40_000_000])])
    assert [head.unit for head in made.heads] == ["", "ms", "ms"]


def test_columns_without_any_value_are_left_out():
    made = table("t", [Column("name"), Column("a", "count"), Column("b")], [Row("k", ["n", 3, ""])])
    assert [head.title for head in made.heads] == ["name", "a"]
    assert [cell.text for cell in made.lines[0].cells] == ["3"]


def test_bars_are_shares_of_the_largest():
    made = table(
        "t", [Column("n"), Column("x", "time", bar=True)], [Row("a", ["a", 200]), Row("b", ["b", 50])]
    )
    assert [line.cells[0].width for line in made.lines] == [100, 25]


def test_wanted_rows_stay_and_anchors_name_the_first_of_equal_keys():
    rows = [Row(f"k{n % 7}", [f"r{n}", n]) for n in range(10)]
    made = table("t", [Column("n"), Column("x", "count")], rows, most=2, wanted=["k5"])
    assert [line.name for line in made.lines] == ["r0", "r1", "r5"]
    assert made.total == 10
    assert made.anchors == {"k0": "t-0", "k1": "t-1", "k5": "t-2"}
