"""Histories of a program that did not change: how often is a change named all the same?"""

from __future__ import annotations

import numpy as np

from laptime.analysis.change_points import changes


def realistic(seed: int) -> list[float]:
    """What runs of one program look like: noise with a tail, slow runs, two speeds, rounding."""
    dice = np.random.default_rng(seed)
    n = int(dice.integers(12, 120))
    logs = dice.uniform(0.003, 0.03) * dice.standard_t(dice.uniform(3, 30), n)
    if dice.random() < 0.4:
        logs += dice.uniform(0.05, 0.5) * (dice.random(n) < dice.uniform(0.02, 0.15))
    if dice.random() < 0.2:
        logs += dice.uniform(0.02, 0.3) * (dice.random(n) < 0.5)
    values = 0.02 * np.exp(logs)
    return [float(value) for value in (np.round(values, 4) if dice.random() < 0.2 else values)]


def test_of_200_histories_without_a_change_at_most_2_percent_have_one_named() -> None:
    assert sum(bool(changes([realistic(seed)])[0]) for seed in range(200)) <= 4


def test_200_histories_that_are_shown_together_share_the_level() -> None:
    found = changes([realistic(seed) for seed in range(1000, 1200)])
    assert sum(map(bool, found)) <= 1
