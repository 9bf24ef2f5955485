"""Changes of level: planted ones are found where they are, and noise alone is no news."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from laptime.analysis import change_points
from laptime.analysis.change_points import changes, holm


def noisy(*parts: tuple[float, int], spread: float = 0.01, seed: int = 1) -> list[float]:
    """Levels, each so many runs long, with log-normal noise."""
    dice = np.random.default_rng(seed)
    levels = np.concatenate([np.full(number, level) for level, number in parts])
    return [float(value) for value in levels * np.exp(dice.normal(0, spread, len(levels)))]


def at(values: list[float], level: float = 0.01) -> list[int]:
    return [change.at for change in changes([values], level)[0]]


@pytest.mark.parametrize("seed", range(5))
def test_a_step_is_found_where_it_is_with_its_size(seed: int) -> None:
    (change,) = changes([noisy((0.020, 30), (0.022, 20), seed=seed)])[0]
    assert abs(change.at - 30) <= 1
    assert change.ratio == pytest.approx(1.1, rel=0.012)
    assert change.ci95 is not None
    assert change.ci95[0] < change.ratio < change.ci95[1]
    assert change.p <= 0.01


def test_a_step_shows_after_a_few_runs() -> None:
    assert at(noisy((1.0, 40), (1.1, 4))) == [40]


def test_a_bump_is_two_changes() -> None:
    """Halves of the whole hardly differ; an interval as long as the bump does."""
    assert at(noisy((1.0, 25), (1.08, 10), (1.0, 25))) == [25, 35]


def test_a_staircase_is_found_step_by_step() -> None:
    assert at(noisy((1.0, 20), (1.06, 20), (1.12, 20), (1.0, 20))) == [20, 40, 60]


def test_one_wild_run_is_no_change_and_hides_none() -> None:
    values = noisy((1.0, 20), (1.05, 15))
    values[7] *= 1.8
    assert at(values) == [20]
    assert at([*noisy((1.0, 15)), 2.0, *noisy((1.0, 15), seed=2)]) == []


def test_a_change_below_the_margin_is_not_told() -> None:
    assert at(noisy((1.0, 60), (1.005, 60), spread=0.001)) == []


@pytest.mark.parametrize("values", [[1.0] * 30, [1.0] * 15 + [2.0] * 15])
def test_runs_without_any_noise_are_no_trouble(values: list[float]) -> None:
    found = changes([values])[0]
    assert [change.at for change in found] == ([15] if max(values) > 1 else [])
    assert all(change.ci95 is None and change.ratio == pytest.approx(2) for change in found)


@pytest.mark.parametrize("number", [0, 1, 5, 9])
def test_few_runs_tell_nothing(number: int) -> None:
    assert changes([noisy((1.0, number), (2.0, number))[:9]]) == [[]]


def test_the_same_history_gives_the_same_answer() -> None:
    values = noisy((1.0, 20), (1.03, 20), spread=0.02)
    assert changes([values]) == changes([values])


def test_a_family_of_histories_shares_the_level() -> None:
    quiet = [noisy((1.0, 30), seed=seed) for seed in range(12)]
    found = changes([*quiet, noisy((1.0, 15), (1.1, 15))])
    assert [[change.at for change in own] for own in found] == [[]] * 12 + [[15]]


def test_holm_lets_the_smallest_through_first() -> None:
    assert holm([0.04, 0.001, 0.02], 0.05) == pytest.approx([0.05, 0.05 / 3, 0.025])
    assert holm([0.06, 0.001, 0.02], 0.05) == pytest.approx([0.0, 0.05 / 3, 0.025])
    assert holm([0.03, 0.03], 0.05) == [0.0, 0.0]
    assert holm([], 0.05) == []


def null(kind: str, n: int, dice: np.random.Generator) -> list[float]:
    logs = {
        "normal": lambda: dice.normal(0, 0.01, n),
        "heavy": lambda: 0.01 * dice.standard_t(2, n),
        "two speeds": lambda: 0.01 * dice.normal(size=n) + 0.3 * (dice.random(n) < 0.3),
    }[kind]()
    return [float(value) for value in np.exp(logs)]


@pytest.mark.parametrize("kind", ["normal", "heavy", "two speeds"])
def test_noise_alone_is_seldom_called_a_change(kind: str) -> None:
    """At a level of 10 %, so that a broken test shows in few histories: 60 of them, 14 would be 1 in 1000."""
    dice = np.random.default_rng(7)
    found = sum(bool(at(null(kind, 24, dice), level=0.1)) for _ in range(60))
    assert found <= 13


def test_the_running_median_is_the_median() -> None:
    rows = np.random.default_rng(0).normal(size=(5, 40))
    padded = np.pad(rows, ((0, 0), (3, 3)), mode="reflect")
    expected = np.median(np.lib.stride_tricks.sliding_window_view(padded, 7, axis=1), axis=2)
    assert np.allclose(change_points._tame(rows + 0.0), _cut(rows, expected))


def _cut(rows: Any, middle: Any) -> Any:
    off = rows - middle
    reach = 4 * 1.4826 * np.median(np.abs(off), axis=1, keepdims=True)
    cut = middle + np.clip(off, -reach, reach)
    return cut - cut.mean(axis=1, keepdims=True)


@pytest.mark.parametrize("after", [4, 40, 700, 1500])
def test_a_step_in_thousands_of_runs_is_found_at_its_run(after: int) -> None:
    (found,) = at(noisy((1.0, 3000 - after), (1.1, after), seed=3))
    assert abs(found - (3000 - after)) <= 1


def test_thousands_of_runs_without_a_change_have_none_and_take_no_time() -> None:
    values = noisy((1.0, 3000), seed=4)
    values[100] *= 3
    began = time.process_time()
    assert at(values) == []
    assert time.process_time() - began < 1.0
