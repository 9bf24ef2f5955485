"""Charts: marks land where their values are, labels have room, legends name what is drawn."""

from __future__ import annotations

import math
import re
from itertools import combinations, pairwise
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laptime.reports.page.plot import (
    Axis,
    Border,
    Column,
    Level,
    Line,
    Note,
    Plot,
    Spot,
    Style,
    borders,
    decades,
    pick_style,
)
from laptime.reports.page.svg import BROAD, HALF, LETTER, LINE, NARROW

RING = Style("ring", "c0", "ours")
WIDTHS = (BROAD, HALF, NARROW)


X, Y = Axis(0.0, 10.0), Axis(0.0, 4.0)


def plot(*marks: Any, x: Axis = X, y: Axis = Y) -> Plot:
    return Plot("a chart", x, y, marks)


def parsed(made: Plot, width: float = BROAD) -> ElementTree.Element:
    return ElementTree.fromstring(str(made.draw(width)))


def classed(made: Plot, name: str, width: float = BROAD) -> list[ElementTree.Element]:
    return [each for each in parsed(made, width).iter() if name in each.get("class", "").split()]


@pytest.mark.parametrize("width", WIDTHS)
def test_a_spot_is_where_its_value_is(width):
    made = plot(Spot(5.0, 3.0, RING, "three"))
    place = made.panel(width).frame
    (mark,) = classed(made, "spot", width)
    x, y = map(float, re.findall(r"[\d.]+", mark.get("d", ""))[:2])
    assert x == pytest.approx((place.left + place.right) / 2, abs=0.1)
    assert y == pytest.approx(place.bottom - 0.75 * (place.bottom - place.top), abs=0.1)
    assert mark[0].text == "three"


def test_an_interval_that_is_open_reaches_to_the_edge_and_one_that_is_not_known_is_not_drawn():
    place = plot().panel(BROAD).frame
    (whisker,) = classed(plot(Spot(1.0, 2.0, RING, "", (1.0, math.inf))), "line")
    assert float(whisker.get("y1", "")) == place.top
    assert not classed(plot(Spot(1.0, 2.0, RING, "", (math.nan, math.nan))), "line")
    assert not classed(plot(Spot(1.0, 2.0, RING, "")), "line")


def test_the_first_spot_lies_on_top_of_all_other_marks():
    first, second = Spot(1.0, 1.0, RING, "first"), Spot(1.0, 1.0, RING, "second")
    drawn = str(plot(first, Line([(0, 0), (9, 3)], "line c1"), second).draw(BROAD))
    assert drawn.index("line c1") < drawn.index("second") < drawn.index("first")


def test_a_line_of_one_point_is_none_and_steps_go_across_before_they_go_up():
    assert not classed(plot(Line([(1.0, 1.0)], "line c0")), "line")
    (path,) = classed(plot(Line([(0.0, 0.0), (5.0, 4.0)], "area", steps=True, area=True)), "area")
    place = plot().panel(BROAD).frame
    middle = (place.left + place.right) / 2
    assert path.get("d") == (
        f"M{place.left:.1f} {place.bottom:.1f}H{middle:.1f}V{place.top:.1f}"
        f"V{place.bottom:.1f}H{place.left:.1f}z"
    )


@given(st.lists(st.floats(0.0, 4.0), min_size=2, max_size=400))
def test_thinned_steps_keep_the_highest_and_the_lowest(heights):
    points = [(10 * at / len(heights), height) for at, height in enumerate(heights)]
    made = plot(Line(points, "area", steps=True))
    on = made.panel(NARROW)
    (path,) = classed(made, "area", NARROW)
    drawn = [float(y) for y in re.findall(r"(?:V|M[\d.]+ )([\d.]+)", path.get("d", ""))]
    assert min(drawn) == pytest.approx(min(on.y(height) for height in heights), abs=0.06)
    assert max(drawn) == pytest.approx(max(on.y(height) for height in heights), abs=0.06)
    assert len(drawn) <= 4 * 380


def test_columns_do_not_touch_and_stand_on_each_other():
    marks = [Column(at, low, low + 1, "fill", "") for at in range(40) for low in (0.0, 1.0)]
    bars = classed(plot(*marks, x=Axis(-0.5, 39.5)), "fill", NARROW)
    (lower, upper), (beside, _) = bars[:2], bars[2:4]
    assert float(upper.get("y", "")) + float(upper.get("height", "")) == pytest.approx(
        float(lower.get("y", "")), abs=0.15
    )
    assert float(lower.get("x", "")) + float(lower.get("width", "")) < float(beside.get("x", ""))


def test_a_level_has_its_interval_as_a_band_behind_it():
    made = plot(Level(2.0, "median", ends=(1.0, 3.0)))
    classes = [each.get("class") for each in parsed(made)]
    assert classes.index("ci") < classes.index("median")
    place = made.panel(BROAD).frame
    (band,), (line,) = classed(made, "ci"), classed(made, "median")
    assert float(band.get("height", "")) == pytest.approx((place.bottom - place.top) / 2, abs=0.1)
    assert (float(line.get("x1", "")), float(line.get("x2", ""))) == (place.left, place.right)


def test_a_level_of_a_part_ends_with_the_part():
    (line,) = classed(plot(Level(2.0, "median", across=(2.5, 5.0))), "median")
    place = plot().panel(BROAD).frame
    quarter = (place.right - place.left) / 4
    ends = (place.left + quarter, place.left + 2 * quarter)
    assert (float(line.get("x1", "")), float(line.get("x2", ""))) == pytest.approx(ends, abs=0.1)


def test_borders_are_left_out_where_they_would_hide_what_is_between_them():
    assert len(borders([float(at) for at in range(40)])) == 40
    assert borders([float(at) for at in range(41)]) == []


def test_a_legend_names_each_series_once_and_those_without_a_name_not_at_all():
    made = plot(
        Line([(0, 0), (1, 1)], "line c3", "theirs"),
        Line([(0, 0), (2, 1)], "line c3", "theirs"),
        Spot(1, 1, RING, ""),
        Spot(2, 1, RING, ""),
        Spot(3, 1, Style("square", "c5"), ""),
    )
    assert re.findall(r"<span>([^<]*)</span>", str(made.keys())) == ["theirs", "ours"]
    assert plot(Spot(3, 1, Style("square", "c5"), "")).keys() == ""


@given(
    st.lists(st.tuples(st.floats(0, 10), st.floats(0, 4), st.sampled_from(["a", "batch 8", "x" * 30]))),
    st.sampled_from(WIDTHS),
)
def test_labels_beside_marks_neither_touch_each_other_nor_are_cut(places, width):
    made = plot(*(Spot(x, y, RING, "", label=label) for x, y, label in places))
    boxes = [
        (float(each.get("x", "")), float(each.get("y", "")), LETTER * len(each.text or ""))
        for each in classed(made, "small", width)
    ]
    assert all(left >= 0 and left + wide <= width for left, _, wide in boxes)
    for (left, y, wide), (other, below, broad) in combinations(boxes, 2):
        assert left + wide < other + 0.2 or other + broad < left + 0.2 or abs(y - below) >= LINE - 0.2


def test_words_of_strangers_stay_words():
    hostile = "<script>alert(1)</script>\x1b[2J /home/me/model.py"
    made = Plot(
        hostile,
        Axis(0.0, 1.0, hostile, write=lambda *_: [(0.5, hostile)]),
        Axis(0.0, 1.0, hostile, write=lambda *_: [(0.5, hostile)]),
        [
            Spot(0.5, 0.5, Style("ring", "c0", hostile), hostile, label=hostile),
            Border(0.5, hostile),
            Note(0.5, 0.5, hostile),
            Column(0.5, 0.0, 1.0, "fill", hostile),
        ],
    )
    source = str(made.draw(BROAD)) + str(made.keys())
    assert "<script" not in source
    assert "\x1b" not in source
    assert "/home/me" not in source


@pytest.mark.parametrize("number", [2, 5, 20])
def test_series_are_told_apart_by_shape_or_colour(number):
    assert len({pick_style(at)[:2] for at in range(number)}) == number
    assert ("square", "c5") not in {pick_style(at)[:2] for at in range(number)}


@given(st.lists(st.floats(1e-9, 1e9), min_size=1), st.floats(1.01, 10))
def test_a_logarithmic_axis_has_room_around_all_values(values, room):
    axis = decades(values, room, title="time", unit=(1e-3, "ms"))
    assert axis.low < min(values) <= max(values) < axis.high
    assert "logarithmic" in axis.text


@pytest.mark.parametrize(("unit", "factor"), [("min", 60.0), ("MiB", 1024.0**2), ("ms", 1e-3)])
def test_labels_are_round_in_the_unit_that_they_are_written_in(unit, factor):
    axis = Axis(0.0, 7.3 * factor, unit=(factor, unit))
    made = plot(y=axis)
    labels = axis.labels(made.panel(BROAD).y, 5)
    steps = {round((after - before) / factor, 9) for (before, _), (after, _) in pairwise(labels)}
    assert steps <= {1.0, 2.0}
    assert [float(text) for _, text in labels] == pytest.approx([value / factor for value, _ in labels])
