"""Numbers that change as a whole, and the one place where an interval meets a limit."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laptime.records.quantity import BROKEN, KEPT, UNDECIDED, Judgement, Quantity

ends = st.floats(1e-6, 1e6)


@st.composite
def quantities(draw: st.DrawFn) -> Quantity:
    low, value, high = sorted(draw(st.tuples(ends, ends, ends)))
    return Quantity(value, low, high, draw(st.integers(1, 1000)), "s")


@given(quantities(), quantities(), st.floats(1e-3, 1e3))
def test_the_interval_holds_the_value_whatever_is_done(one: Quantity, other: Quantity, factor: float) -> None:
    for made in (
        one.scale(factor),
        one.scale(-factor),
        one.invert(factor, "1/s"),
        one.divide(factor),
        one.divide(other, "1"),
        one.at_most(factor),
    ):
        assert made.low is not None
        assert made.high is not None
        assert made.low <= made.value <= made.high
    assert one.invert(unit="1/s").unit == "1/s"
    assert one.scale(factor).unit == "s"


@given(quantities(), quantities())
def test_a_ratio_reaches_from_end_to_end(one: Quantity, other: Quantity) -> None:
    ratio = one.divide(other, "1")
    assert one.low is not None
    assert one.high is not None
    assert other.low is not None
    assert other.high is not None
    assert ratio.interval == pytest.approx((one.low / other.high, one.high / other.low))
    assert ratio.n == min(one.n, other.n)


def test_a_ratio_has_an_interval_only_if_both_have_or_are_exact() -> None:
    known, bare, exact = Quantity(4.0, 3.0, 5.0), Quantity(2.0), Quantity(2.0, exact=True)
    assert known.divide(bare).interval is None
    assert bare.divide(known).interval is None
    assert known.divide(exact).interval == (1.5, 2.5)
    assert exact.divide(known).interval == (0.4, 2 / 3)


def test_a_value_outside_of_its_interval_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="outside of"):
        Quantity(5.6, 554.0, 572.0)
    with pytest.raises(ValueError, match="two ends"):
        Quantity(5.6, 5.5)
    with pytest.raises(ValueError, match="outside"):
        msgspec.json.decode(b'{"value": 5.6, "low": 6, "high": 7}', type=Quantity)


def test_an_interval_of_another_estimator_is_widened_to_the_value() -> None:
    assert Quantity.of(5.0, (5.1, 5.4)).interval == (5.0, 5.4)
    assert Quantity.of(5.0, (4.0, 4.9)).interval == (4.0, 5.0)
    assert Quantity.of(math.inf, (4.0, 5.0)).interval is None
    assert Quantity.of(5.0, (math.nan, 6.0)).interval is None


@pytest.mark.parametrize(
    ("quantity", "at_most", "at_least"),
    [
        (Quantity(4.0, 3.0, 5.0), KEPT, KEPT),
        (Quantity(4.0), UNDECIDED, UNDECIDED),
        (Quantity(4.0, exact=True), KEPT, KEPT),
        (Quantity(4.0, 3.0, 6.0), UNDECIDED, KEPT),
        (Quantity(8.0, 6.0, 9.0), BROKEN, KEPT),
        (Quantity(2.0, 1.0, 2.5), KEPT, BROKEN),
        (Quantity(8.0, exact=True), BROKEN, KEPT),
        (Quantity(4.0, 2.0, math.inf), UNDECIDED, UNDECIDED),
    ],
)
def test_the_whole_interval_judges(quantity: Quantity, at_most: Judgement, at_least: Judgement) -> None:
    assert quantity.judge(5.0) is at_most
    assert quantity.judge(3.0, at_least=True) is at_least


def test_one_broken_breaks_all() -> None:
    assert Judgement.of_all([]) is KEPT
    assert Judgement.of_all([KEPT, UNDECIDED]) is UNDECIDED
    assert Judgement.of_all([UNDECIDED, KEPT, BROKEN]) is BROKEN


@pytest.mark.parametrize(
    ("word", "judgement"),
    [("ok", KEPT), ("fail", BROKEN), ("unknown", UNDECIDED), ("violated", BROKEN), ("unclear", UNDECIDED)],
)
def test_words_of_older_files_are_read(word: str, judgement: Judgement) -> None:
    assert msgspec.json.decode(f'"{word}"'.encode(), type=Judgement) is judgement
    assert msgspec.json.encode(judgement) == f'"{judgement}"'.encode()


def test_a_word_of_no_file_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'"maybe"', type=Judgement)


def test_value_and_interval_are_told_with_one_unit_and_as_many_digits_as_are_known() -> None:
    known = Quantity(0.0263, 0.0259, 0.0268, unit="s")
    assert (known.text, known.interval_text) == ("26.3 ms", "[25.9, 26.8] ms")
    assert known.estimate == "26.3 [25.9, 26.8] ms"
    assert (Quantity(3.0, unit="B").interval_text, Quantity(3.0, unit="B").estimate) == ("", "3.00 B")


def test_a_factor_that_is_not_a_number_leaves_no_interval() -> None:
    made = Quantity(2.0, 1.0, 3.0).scale(math.nan)
    assert math.isnan(made.value)
    assert made.interval is None
    assert Quantity(2.0, 1.0, math.inf).invert().interval == (0.0, 1.0)
