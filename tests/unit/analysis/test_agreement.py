"""How far apart the outputs of two frameworks are."""

from __future__ import annotations

import numpy as np
import pytest

from laptime.analysis.agreement import agreement

LOGITS = np.array([[1.0, 2.0, 4.0], [8.0, 2.0, 1.0]], np.float32)


def test_equal_outputs_agree_in_everything() -> None:
    found = agreement([LOGITS], [LOGITS.copy()])
    assert found == {"max_error": 0.0, "relative": 0.0, "cosine": 1.0, "top1": 1.0}


def test_the_largest_error_is_told_absolute_and_against_the_largest_output() -> None:
    found = agreement([LOGITS + np.float32(0.5)], [LOGITS])
    assert found["max_error"] == pytest.approx(0.5)
    assert found["relative"] == pytest.approx(0.5 / 8)
    assert 0.99 < found["cosine"] < 1


def test_another_winner_shows_in_top1() -> None:
    other = LOGITS.copy()
    other[0, 0] = 5.0
    assert agreement([other], [LOGITS])["top1"] == 0.5


def test_the_worst_of_several_outputs_counts() -> None:
    found = agreement([LOGITS, -LOGITS], [LOGITS, LOGITS])
    assert found["cosine"] == pytest.approx(-1)
    assert found["max_error"] == pytest.approx(16)


def test_outputs_of_another_shape_are_not_compared() -> None:
    assert "(2, 3)" in agreement([LOGITS], [LOGITS[:, :2]])["reason"]
    assert "reason" in agreement([LOGITS], [LOGITS, LOGITS])
    assert "reason" in agreement([], [])


def test_nan_and_infinity_agree_only_with_themselves() -> None:
    odd = np.array([np.nan, np.inf, 1.0], np.float32)
    assert agreement([odd], [odd])["max_error"] == 0
    found = agreement([odd], [np.array([1.0, 1.0, 1.0], np.float32)])
    assert found["max_error"] == np.inf
    assert found["cosine"] == 0.0


def test_no_top1_without_rows_of_classes() -> None:
    assert agreement([np.ones((2, 3, 4), np.float32)], [np.ones((2, 3, 4), np.float32)])["top1"] is None
    assert agreement([np.ones((2, 1), np.float32)], [np.ones((2, 1), np.float32)])["top1"] is None
    assert agreement([np.ones((2, 3), np.int64)], [np.ones((2, 3), np.int64)])["top1"] is None
