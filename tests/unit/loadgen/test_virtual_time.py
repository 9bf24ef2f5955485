"""Queues whose latencies are closed forms, in virtual time: the real schedule, driver and statistics.

Service of 20 ms, one slot. M/M/1 (Kleinrock, Queueing Systems 1, 3.2): the time there is exponential with
mean 1/(mu - lambda). M/D/1: mean S + rho S / (2 (1 - rho)) (Pollaczek and Khinchine).
"""

from __future__ import annotations

import numpy as np
import pytest
from msgspec import structs

from fixtures import runs
from fixtures.virtual_load import constant, exponential, level
from laptime.analysis.load import LevelStats, level_stats
from laptime.analysis.stat import Stat
from laptime.loadgen import arrivals
from laptime.pricing.speeds import speeds
from laptime.records.case import Case

S = 0.020


def numbers(case: Case) -> LevelStats:
    stats = level_stats(case)
    assert stats is not None
    return stats


def covers(stat: Stat, truth: float) -> bool:
    return stat.ci95 is not None and stat.ci95[0] <= truth <= stat.ci95[1]


def test_md1_at_20_per_second_has_its_mean_and_tail() -> None:
    runs = [numbers(level(20, 300, constant(S), seed)) for seed in range(20)]
    assert sum(covers(each.latency["mean"], 0.02667) for each in runs) >= 18
    told = [each.latency["p99"] for each in runs if each.latency["p99"].value is not None]
    assert len(told) >= 15
    assert sum(covers(each, 0.0704) for each in told) >= 0.85 * len(told)


def test_a_mean_known_to_more_than_five_percent_is_noisy_and_says_how_long_it_takes() -> None:
    case = level(40, 120, constant(S), 1)
    (check,) = [each for each in case.checks if each.name == "enough"]
    share = numbers(case).latency["mean"].precision
    assert share is not None
    assert share > 0.05
    assert case.trust == "noisy"
    enough = 120 * max(4, (share / 0.05) ** 2)
    advised = float(check.next.removeprefix("--duration ").removesuffix("s"))
    assert enough <= advised <= 1.1 * enough


@pytest.mark.slow
@pytest.mark.parametrize(
    ("service", "rate", "truth"),
    [
        (exponential, 40, {"mean": 0.100, "p95": 0.2996, "p99": 0.4605}),
        (constant, 40, {"mean": 0.060, "p95": 0.1524, "p99": 0.2271}),
        (constant, 20, {"mean": 0.02667, "p99": 0.0704}),
    ],
)
def test_intervals_cover_in_95_of_100(service: object, rate: float, truth: dict[str, float]) -> None:
    cover = dict.fromkeys(truth, 0)
    told = dict.fromkeys(truth, 0)
    for seed in range(100):
        source = exponential(S, seed + 1000) if service is exponential else constant(S)
        stats = numbers(level(rate, 1000, source, seed))
        for name, value in truth.items():
            told[name] += stats.latency[name].ci95 is not None
            cover[name] += covers(stats.latency[name], value)
    for name in truth:
        assert told[name] - cover[name] <= max(1, 0.05 * told[name]), (name, cover, told)
    assert told["mean"] == 100


def test_overload_is_told_as_such_and_the_nth_answer_is_that_late() -> None:
    case = level(60, 10, constant(S), 0, arrivals="constant")
    stats = numbers(case)
    n = np.arange(len(stats.requests.latency))
    np.testing.assert_allclose(stats.requests.latency, S + n * (S - 1 / 60), atol=1e-6)
    assert stats.balance.grows
    assert all(stat.value is None for stat in stats.latency.values())
    assert stats.balance.growth == pytest.approx(10, rel=0.05)
    assert [check.name for check in case.checks if check.outcome == "warn"] == ["capacity"]


def test_poisson_overload_is_seen_and_a_busy_queue_is_not_taken_for_it() -> None:
    assert all(numbers(level(60, 20, constant(S), seed)).balance.grows for seed in range(10))
    assert not any(numbers(level(40, 20, constant(S), seed)).balance.grows for seed in range(20))


def test_thirty_requests_at_eight_a_second_on_one_slot_of_270_ms() -> None:
    """What three peers print p95s of 0.2 to 0.3 s for."""
    stats = numbers(level(8, 10, constant(0.27), 0, arrivals="constant", requests=30))
    truth = np.quantile(0.27 + np.arange(30) * (0.27 - 0.125), 0.95, method="higher")
    assert stats.window == pytest.approx(truth, rel=0.001)
    assert stats.balance.grows


def test_a_schedule_is_poisson_and_one_seed_gives_one() -> None:
    due = arrivals.schedule("poisson", 50, seconds=200, seed=3)
    assert (due == arrivals.schedule("poisson", 50, seconds=200, seed=3)).all()
    assert not np.array_equal(due, arrivals.schedule("poisson", 50, seconds=200, seed=4))
    gaps = np.sort(np.diff(due, prepend=0.0))
    law = 1 - np.exp(-50 * gaps)
    n = len(gaps)
    distance = max((np.arange(1, n + 1) / n - law).max(), (law - np.arange(n) / n).max())
    assert distance * np.sqrt(n) < 1.63  # Kolmogorov and Smirnov, 1 %
    uneven = np.sort(np.diff(arrivals.schedule("gamma", 50, seconds=200, seed=3, shape=0.3)))
    law = 1 - np.exp(-50 * uneven)
    assert (law - np.arange(len(uneven)) / len(uneven)).__abs__().max() * np.sqrt(len(uneven)) > 5


def test_no_tick_is_skipped_whatever_the_server_does() -> None:
    stats = numbers(level(50, 4, lambda: 1.0, 0, arrivals="constant"))
    assert len(stats.requests.due) == 200
    np.testing.assert_allclose(np.diff(stats.requests.due), 1 / 50, atol=1e-6)


def test_what_a_level_answered_per_second_is_what_it_costs_not_one_over_its_latency() -> None:
    case = level(30, 100, constant(S), 0)
    answered = numbers(case).answered.value
    assert answered == pytest.approx(30, rel=0.1)
    made = speeds(structs.replace(runs.run(case), verb="load")).speeds
    assert [speed.rate for speed in made] == [answered]
    assert made[0].unit == "request"
