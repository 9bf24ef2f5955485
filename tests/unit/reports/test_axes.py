"""Axes: ticks that say different things, labels that do not touch and are not cut."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laptime.reports.page.svg import BROAD, HALF, LETTER, LINE, NARROW, Frame, frame

LOWS = st.floats(-1e9, 1e9, allow_subnormal=False)
SPANS = st.floats(1e-3, 1e9)


def written(markup: str) -> list[tuple[float, float, str]]:
    """(x, y, text) of the labels of an axis."""
    found = re.findall(r'<text x="([-\d.]+)" y="([-\d.]+)"[^>]*>([^<]*)<', markup)
    return [(float(x), float(y), text) for x, y, text in found]


@given(low=LOWS, span=SPANS, about=st.integers(2, 9))
def test_no_two_ticks_say_the_same(low: float, span: float, about: int) -> None:
    texts = [text for _, text in frame(BROAD, 300).x(low, low + span).labels(about)]
    assert len(texts) >= 2
    assert len(texts) == len({*texts})


@given(low=st.floats(1e-9, 1e6), factor=st.floats(1.01, 1e9), unit=st.sampled_from([1e-6, 1e-3, 1.0, 60.0]))
def test_no_two_ticks_of_a_logarithmic_axis_say_the_same(low: float, factor: float, unit: float) -> None:
    texts = [text for _, text in frame(BROAD, 300).y(low, low * factor, log=True).labels(5, unit)]
    assert len(texts) >= 2
    assert len(texts) == len({*texts})


@pytest.mark.parametrize("place", [frame(width, 270) for width in (BROAD, HALF, NARROW)])
@pytest.mark.parametrize("text", ["8", "2026-01-01", "1,000,000.25"])
@pytest.mark.parametrize("number", [1, 2, 7, 40, 400])
def test_labels_at_the_bottom_neither_touch_nor_are_cut(place: Frame, text: str, number: int) -> None:
    x = place.x(0, max(number - 1, 1))
    shown = written(place.bottom_axis(x, [(at, text) for at in range(number)]))
    wide = len(text) * LETTER
    assert shown
    assert all(right - left >= wide for (left, *_), (right, *_) in pairwise(shown))
    assert all(wide / 2 - 0.1 <= middle <= place.width - wide / 2 + 0.1 for middle, *_ in shown)


def test_labels_at_the_left_do_not_touch_and_keep_their_lines() -> None:
    place = frame(NARROW, 120)
    made = place.left_axis(place.y(0, 40), [(value, str(value)) for value in range(40)])
    shown = written(made)
    assert 2 <= len(shown) < 40
    assert all(lower - upper >= LINE - 0.1 for (_, lower, _), (_, upper, _) in pairwise(shown))
    assert made.count('class="grid"') == 40
