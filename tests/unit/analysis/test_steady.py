from __future__ import annotations

import time

import numpy as np
import pytest

from laptime.analysis.quantiles import Floats
from laptime.analysis.steady import settle


def noise(seed: int, n: int, *, share: float = 0.01, tail: float = 0.0) -> Floats:
    """Timings of 10 ms with log-normal noise; a share `tail` of them is slower by 30 % on average."""
    dice = np.random.default_rng(seed)
    x = 0.010 * np.exp(dice.normal(0, share, n))
    return np.where(dice.random(n) < tail, x * (1 + dice.exponential(0.3, n)), x)


@pytest.mark.parametrize("n", [8, 20, 100, 500])
@pytest.mark.parametrize("share", [0.002, 0.01, 0.05, 0.2])
def test_flat_noise_is_flat(n: int, share: float) -> None:
    kinds = [settle(noise(seed, n, share=share)).kind for seed in range(100)]
    assert kinds.count("flat") >= 99


def test_flat_noise_with_slow_samples_in_it_is_flat() -> None:
    """A slow first sample is a warm-up of one call, as far as anyone can tell: it stands aside."""
    found = [settle(noise(seed, 200, tail=0.03)) for seed in range(100)]
    assert all(steady.kind == "flat" or steady.start == 1 for steady in found)
    assert sum(steady.kind == "flat" for steady in found) >= 93


@pytest.mark.parametrize("calls", [1, 3, 20])
@pytest.mark.parametrize("factor", [1.2, 1.5, 3.0])
@pytest.mark.parametrize("n", [60, 300])
def test_planted_warm_up_is_found_to_the_sample(calls: int, factor: float, n: int) -> None:
    hits = 0
    for seed in range(50):
        x = noise(seed, n)
        x[:calls] *= factor
        found = settle(x)
        hits += abs(found.start - calls) <= (0 if calls == 1 else 2) and found.kind == "warm-up"
        assert found.start >= calls - 2, (seed, found)
    assert hits >= 49


def test_change_tells_how_much_slower_the_warm_up_was() -> None:
    x = noise(1, 100)
    x[:10] *= 2
    assert settle(x).change == pytest.approx(1.0, abs=0.05)


def test_warm_up_in_two_stages_is_found_whole() -> None:
    x = noise(2, 200)
    x[:5] *= 4
    x[5:30] *= 1.3
    found = settle(x)
    assert found.kind == "warm-up"
    assert 28 <= found.start <= 32


def test_warm_up_that_fades_leaves_less_than_a_tenth() -> None:
    x = noise(3, 200)
    x *= 1 + 2 * np.exp(-np.arange(200) / 8)
    found = settle(x)
    assert found.kind == "warm-up"
    assert 16 <= found.start <= 60
    assert 2 * np.exp(-found.start / 8) < 0.1 * 2


def test_slow_down_is_told_apart_from_warm_up() -> None:
    x = noise(4, 200)
    x[:40] *= 0.8
    found = settle(x)
    assert found.kind == "slow-down"
    assert abs(found.start - 40) <= 6
    assert found.change == pytest.approx(-0.2, abs=0.03)


def test_level_that_wanders_is_unstable() -> None:
    x = noise(5, 300)
    x[100:200] *= 1.3
    assert settle(x).kind == "unstable"


def test_slow_drift_is_no_warm_up() -> None:
    """A level that strolls by a few per cent has no beginning to set aside."""
    found = []
    for seed in range(60):
        dice = np.random.default_rng(seed)
        level = np.zeros(300)
        for i in range(1, 300):
            level[i] = 0.998 * level[i - 1] + dice.normal(0, 0.002)
        found.append(settle(noise(seed, 300) * np.exp(level)))
    assert sum(steady.start == 0 for steady in found) >= 54


@pytest.mark.parametrize("where", [slice(0, 1), slice(0, 30), slice(100, 160)])
def test_disturbed_samples_do_not_pass_for_warm_up(where: slice) -> None:
    x = noise(6, 200)
    ignore = np.zeros(200, dtype=bool)
    ignore[where] = True
    x[where] *= 2
    assert settle(x, ignore).kind == "flat"


def test_warm_up_behind_disturbed_samples_is_counted_in_places_of_the_series() -> None:
    x = noise(7, 200)
    x[:20] *= 1.5
    ignore = np.zeros(200, dtype=bool)
    ignore[:4] = True
    x[:4] *= 3
    found = settle(x, ignore)
    assert found.kind == "warm-up"
    assert abs(found.start - 20) <= 1


def test_a_disturbance_makes_no_call_faster() -> None:
    x = noise(10, 22)
    x[:13] *= 10
    for disturbed_from in (5, 8, 13):  # the faster calls were all disturbed, some of the slow ones, too
        ignore = np.arange(22) >= disturbed_from
        assert settle(x, ignore)[:2] == (13, "warm-up")


@pytest.mark.parametrize("undisturbed", range(9))
def test_a_warm_up_ends_as_well_where_most_of_what_follows_is_disturbed(undisturbed: int) -> None:
    """A busy machine hits short calls that sleep far more often than the long ones before them."""
    samples = np.r_[np.full(14, 0.1), np.full(8, 0.003)]
    ignore = np.arange(22) >= 14 + undisturbed
    assert settle(samples, ignore)[:2] == (14, "warm-up")


def test_a_warm_up_is_looked_for_in_the_disturbed_where_there_is_nothing_else() -> None:
    samples = np.r_[np.full(14, 0.1), np.full(8, 0.003)]
    assert settle(samples, np.ones(22, dtype=bool)).start == 14


def test_single_fast_samples_among_the_disturbed_are_no_level() -> None:
    x = noise(11, 200)
    x[5:] *= 1.3
    x[20:200:7] *= 0.6
    assert settle(x, np.arange(200) >= 5).kind == "flat"


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_too_few_samples_have_no_warm_up(n: int) -> None:
    assert settle(noise(8, n)) == (0, "flat", 0.0)


def test_equal_samples_are_flat() -> None:
    assert settle(np.full(50, 0.01)).kind == "flat"
    assert settle(np.zeros(50)).kind == "flat"


def test_first_sample_of_otherwise_equal_ones_is_found() -> None:
    x = np.full(50, 0.01)
    x[0] = 0.02
    assert settle(x) == (1, "warm-up", pytest.approx(1.0))


def test_a_hundred_thousand_samples_take_seconds_at_most() -> None:
    x = noise(9, 100_000)
    x[:1000] *= 1.5
    started = time.process_time()
    found = settle(x)
    assert time.process_time() - started < 10
    assert abs(found.start - 1000) < 150
