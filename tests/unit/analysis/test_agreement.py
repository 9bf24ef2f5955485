"""How far apart the outputs of two frameworks are."""

from __future__ import annotations

import numpy as np
import pytest

from laptime.analysis.agreement import agreement, verdict

LOGITS = np.array([[1.0, 2.0, 4.0], [8.0, 2.0, 1.0]], np.float32)


def test_equal_outputs_agree_in_everything() -> None:
    found = agreement([LOGITS], [LOGITS.copy()])
    assert found == {"max_error": 0.0, "relative": 0.0, "cosine": 1.0, "top1": 1.0}


def test_the_largest_error_is_told_absolute_and_against_the_outputs_scale() -> None:
    found = agreement([LOGITS + np.float32(0.5)], [LOGITS])
    assert found["max_error"] == pytest.approx(0.5)
    assert found["relative"] == pytest.approx(0.5 / 3.5)
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


def test_a_single_output_that_is_wrong_by_a_factor_is_different() -> None:
    """At batch 1 its cosine is 1 whatever it is."""
    found = agreement([np.array([[16.32]], np.float32)], [np.array([[0.3264]], np.float32)])
    assert found["cosine"] == 1
    assert verdict(found, "float32") == "different"


def test_each_output_has_a_scale_of_its_own() -> None:
    """A large output does not hide an error in a small one, nor an offset one in what varies."""
    small, large = np.linspace(-1e-3, 1e-3, 8), np.linspace(-1e3, 1e3, 8)
    assert verdict(agreement([2 * small, large], [small, large]), "float32") == "different"
    offset = 1000 + np.linspace(-1, 1, 8)
    assert verdict(agreement([2000 - offset], [offset]), "float32") == "different"
    assert verdict(agreement([offset.astype(np.float32)], [offset]), "float32") == "same"
