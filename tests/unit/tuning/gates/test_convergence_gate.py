"""Non-inferiority, paired by seed."""

from __future__ import annotations

import math
import random

import pytest

from laptime.tuning.gates.verdict import final_loss, judge_loss, margin


def curve(end: float, steps: int = 600) -> list[float]:
    return [end + 1 / (1 + step) for step in range(steps)]


BASE = [curve(end) for end in (1.00, 1.02, 0.97, 1.01, 0.99)]


def moved(by: float, spread: float = 0.0) -> list[list[float]]:
    signs = (1, -1, 0.5, -0.5, 0)
    return [[loss + by + spread * sign for loss in each] for each, sign in zip(BASE, signs, strict=True)]


def test_the_margin_is_half_a_deviation_of_the_baseline() -> None:
    allowed = margin(BASE)
    assert allowed == pytest.approx(0.5 * 0.01924, rel=1e-2)
    assert margin(BASE[:1]) is None


def test_words() -> None:
    allowed = margin(BASE)
    assert judge_loss(BASE, moved(0.0005, 0.001), allowed).word == "holds"
    assert judge_loss(BASE, moved(0.06, 0.001), allowed).word == "fails"
    assert judge_loss(BASE, moved(0.005, 0.05), allowed).word == "inconclusive"
    assert judge_loss(BASE, moved(-0.1, 0.001), allowed).word == "holds"
    assert judge_loss(BASE, BASE, allowed).word == "holds"


def test_the_bound_is_that_of_students_t() -> None:
    found = judge_loss(BASE, moved(0.0, 0.01), 1.0)
    deviation = 0.01 * math.sqrt(2.5 / 4)  # of (1, -1, 0.5, -0.5, 0)
    assert found.difference == pytest.approx(0.0, abs=1e-9)
    assert found.upper == pytest.approx(2.131847 * deviation / math.sqrt(5), rel=1e-4)


def test_little_data_never_holds() -> None:
    assert judge_loss(BASE[:2], BASE[:2], 0.1).word == "inconclusive"
    assert judge_loss([], [], 0.1).word == "inconclusive"
    assert judge_loss(BASE, BASE, None).word == "inconclusive"
    few = [each[:10] for each in BASE]
    assert judge_loss(few, few, 0.1).word == "inconclusive"


def test_a_short_horizon_is_a_smoke_test() -> None:
    short = [each[:100] for each in BASE]
    found = judge_loss(short, short, 0.1)
    assert found.smoke_test
    assert "smoke test" in found.sentence
    assert not judge_loss(BASE, BASE, 0.1).smoke_test


def test_a_loss_that_is_no_number_fails() -> None:
    broken = [*BASE[:4], [math.nan] * 600]
    assert judge_loss(BASE, broken, 0.1).word == "fails"


def test_a_useless_margin_is_not_passed_by_chance_often() -> None:
    """A candidate that is worse by exactly the margin holds in about 5 of 100 sessions."""
    noise = random.Random(1)
    held = 0
    for _ in range(400):
        worse = [[1.01]] * 5
        base = [[1.0] * 20 for _ in range(5)]
        final = [[each[0] + noise.gauss(0, 0.005)] * 20 for each in worse]
        held += judge_loss(base, final, 0.01).word == "holds"
    assert 8 <= held <= 36


def test_the_final_loss_is_smoothed() -> None:
    assert final_loss([5.0] * 90 + [1.0, 3.0] * 5) == 2.0
