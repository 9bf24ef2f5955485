from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from laptime.analysis.quantiles import (
    Floats,
    deviation_interval,
    effective_size,
    interval,
    mean_interval,
    quantile,
    ranks,
    samples_needed,
)

Draw = Callable[[np.random.Generator, int], Floats]

# Distribution, and its true quantiles at 0.5 and 0.9.
DISTRIBUTIONS: dict[str, tuple[Draw, float, float]] = {
    "normal": (lambda dice, n: dice.normal(0, 1, n), 0.0, 1.2815516),
    "exponential": (lambda dice, n: dice.exponential(1, n), math.log(2), math.log(10)),
    "log-normal": (lambda dice, n: dice.lognormal(0, 1, n), 1.0, math.exp(1.2815516)),
    "two levels": (
        lambda dice, n: np.where(dice.random(n) < 0.7, dice.uniform(1, 2, n), dice.uniform(4, 5, n)),
        1 + 0.5 / 0.7,
        4 + 0.2 / 0.3,
    ),
    "Cauchy": (lambda dice, n: dice.standard_cauchy(n), 0.0, math.tan(0.4 * math.pi)),
}


def brute_force_ranks(n: int, q: float, level: float = 0.95) -> tuple[int, int] | None:
    """Largest r with P(B < r) <= tail and smallest s with P(B >= s) <= tail, from exact binomial sums."""
    tail = (1 - level) / 2
    mass = [math.comb(n, k) * q**k * (1 - q) ** (n - k) for k in range(n + 1)]
    low = max(r for r in range(n + 2) if math.fsum(mass[:r]) <= tail)
    high = min(s for s in range(n + 2) if math.fsum(mass[s:]) <= tail)
    return (low, high) if low >= 1 and high <= n else None


@pytest.mark.parametrize("q", [0.05, 0.25, 0.5, 0.9, 0.95, 0.99])
def test_ranks_are_those_of_the_binomial(q: float) -> None:
    for n in [*range(1, 80), 100, 250, 368, 400]:
        assert ranks(n, q) == brute_force_ranks(n, q), n


def test_ranks_of_very_large_samples_continue_those_of_large_ones() -> None:
    """Above 5000 samples a normal approximation takes over: without a step of more than a rank or two."""
    for q in (0.05, 0.5, 0.99):
        exact, approximate = ranks(5000, q), ranks(5001, q)
        assert exact is not None
        assert approximate is not None
        assert abs(exact[0] - approximate[0]) <= 3
        assert abs(exact[1] - approximate[1]) <= 3


@pytest.mark.parametrize(
    ("q", "needed"), [(0.5, 6), (0.9, 36), (0.95, 72), (0.99, 368), (0.05, 72), (0.01, 368)]
)
def test_samples_needed_for_an_interval(q: float, needed: int) -> None:
    assert samples_needed(q) == needed
    assert ranks(needed, q) is not None
    assert ranks(needed - 1, q) is None


@pytest.mark.parametrize("n", [8, 20, 100, 1000])
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_interval_covers_the_median_of_independent_samples(name: str, n: int) -> None:
    draw, truth, _ = DISTRIBUTIONS[name]
    assert _coverage(draw, truth, 0.5, n) >= 0.95 - _error()


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_interval_covers_a_high_quantile_of_independent_samples(name: str) -> None:
    draw, _, truth = DISTRIBUTIONS[name]
    assert _coverage(draw, truth, 0.9, 200) >= 0.95 - _error()


RUNS = 1000


def _error() -> float:
    """Three standard errors of a share of 0.95 in so many runs."""
    return 3 * math.sqrt(0.95 * 0.05 / RUNS)


def _coverage(draw: Draw, truth: float, q: float, n: int) -> float:
    dice = np.random.default_rng(n)
    found = [interval(draw(dice, n), q, effective=n) for _ in range(RUNS)]
    return sum(ends is not None and ends[0] <= truth <= ends[1] for ends in found) / RUNS


def test_interval_keeps_its_promise_when_the_autocorrelation_is_estimated() -> None:
    dice = np.random.default_rng(3)
    for rho in (0.0, 0.5, 0.8):
        covered = 0
        for _ in range(400):
            ends = interval(_autoregressive(dice, 400, rho), 0.5)
            covered += ends is not None and ends[0] <= 0 <= ends[1]
        assert covered / 400 >= 0.92, rho


@pytest.mark.parametrize("rho", [0.3, 0.6, 0.9])
def test_effective_size_of_an_autoregressive_series_is_near_theory(rho: float) -> None:
    """The indicator x <= median of a Gaussian AR(1) has autocorrelations 2/pi asin(rho^k)."""
    dice = np.random.default_rng(11)
    n = 4000
    theory = n / (1 + 2 * sum(2 / math.pi * math.asin(rho**k) for k in range(1, 400)))
    found = float(np.median([effective_size(_autoregressive(dice, n, rho)) for _ in range(25)]))
    assert theory / 1.3 < found < theory * 1.3


def test_effective_size_of_independent_samples_is_nearly_their_number() -> None:
    dice = np.random.default_rng(5)
    found = [effective_size(dice.normal(size=500)) for _ in range(50)]
    assert float(np.median(found)) > 350
    assert max(found) <= 500


def test_effective_size_stays_within_its_bounds() -> None:
    assert effective_size(np.ones(100)) == 100
    assert effective_size(np.arange(3.0)) == 3
    slow = np.repeat([1.0, 2.0], 500)
    assert 1 <= effective_size(slow) < 10


def test_antithetic_samples_are_worth_no_more_than_their_number() -> None:
    assert effective_size(np.tile([1.0, 2.0], 50)) <= 100


def _autoregressive(dice: np.random.Generator, n: int, rho: float) -> Floats:
    steps = dice.normal(size=n + 200)
    x = np.zeros(n + 200)
    for i in range(1, len(x)):
        x[i] = rho * x[i - 1] + math.sqrt(1 - rho**2) * steps[i]
    return x[200:]


def test_interval_of_too_few_samples_is_none() -> None:
    assert interval(np.arange(5.0), 0.5) is None
    assert interval(np.arange(6.0), 0.5) == (0.0, 5.0)
    assert interval(np.array([]), 0.5) is None


def test_interval_widens_when_samples_are_worth_less() -> None:
    samples = np.arange(1000.0)
    narrow, wide = interval(samples, 0.5, effective=1000), interval(samples, 0.5, effective=20)
    assert narrow is not None
    assert wide is not None
    assert wide[0] < narrow[0] < 499.5 < narrow[1] < wide[1]
    assert interval(samples, 0.5, effective=5) is None


def test_mean_interval_covers_the_mean() -> None:
    dice = np.random.default_rng(2)
    covered = 0
    for _ in range(500):
        ends = mean_interval(dice.normal(3, 1, 50))
        covered += ends is not None and ends[0] <= 3 <= ends[1]
    assert covered / 500 >= 0.92
    assert mean_interval(np.array([1.0, 2.0])) is None


def test_the_mean_of_rare_bursts_is_covered() -> None:
    """Now and then 20 calls that take twice as long: who saw few of them does not know how many there are."""
    dice = np.random.default_rng(3)

    def calls() -> Floats:
        parts = [np.repeat([1.0, 2.0], [round(dice.exponential(180)), 20]) for _ in range(20)]
        return np.concatenate(parts)[:1500]

    ends = [mean_interval(calls()) or (0.0, 0.0) for _ in range(1000)]
    assert sum(low <= 1.1 <= high for low, high in ends) >= 950
    assert sum(high < 1.1 for _, high in ends) <= 20  # 47 where both sides are as wide


def test_deviation_interval_covers_the_deviation_of_any_shape() -> None:
    dice = np.random.default_rng(4)
    covered = 0
    for _ in range(500):
        ends = deviation_interval(dice.uniform(0, math.sqrt(12), 200))
        covered += ends is not None and ends[0] <= 1 <= ends[1]
    assert covered / 500 >= 0.9
    assert deviation_interval(np.ones(20)) == (0.0, 0.0)


def test_quantile_interpolates_between_order_statistics() -> None:
    assert quantile(np.array([1.0, 2.0, 3.0, 4.0]), 0.5) == 2.5


def test_the_mean_of_samples_that_repeat_each_other_is_covered() -> None:
    """By the order of the samples alone it was in 88 of 100."""
    dice = np.random.default_rng(6)
    ends = [mean_interval(_autoregressive(dice, 800, 0.9)) for _ in range(200)]
    assert sum(each is not None and each[0] <= 0 <= each[1] for each in ends) >= 183


def test_where_every_fifth_sample_is_slow_the_mean_is_known_well() -> None:
    samples = np.tile([5e-3] * 4 + [25e-3], 100)
    low, high = mean_interval(samples) or (0.0, 0.0)
    assert low <= 9e-3 <= high
    assert high / low < 1.02  # as independent samples they would be known to 8 %


def test_many_samples_that_are_worth_few_have_an_interval_of_all_of_them() -> None:
    wandering = 5e-3 + 1e-6 * np.cumsum(np.random.default_rng(1).normal(size=300))
    assert interval(wandering, 0.5) in (None, (wandering.min(), wandering.max()))
