"""How near a search comes to the peak, and how often it claims one that the server cannot hold."""

from __future__ import annotations

import math

import numpy as np
import pytest
from msgspec import structs

from fixtures.load_worlds import World, level, searched
from laptime.analysis.promises import promises
from laptime.records.case import Case
from laptime.records.check import Check
from laptime.verbs.load.peak import find_peak, likely

SEEDS = 100
SLO = "latency=200ms@p99"


SLOW = World("constant", 0.4, 3)
"""Three slots of 0.4 s."""


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("world", "slo", "truth"),
    [
        (World(), "latency=200ms@p99", 26.97),  # M/M/1: ln(100) / (1/S - rate)
        (World("constant"), "latency=200ms@p99", 38.67),  # M/D/1: Crommelin's sum (1932), solved for the rate
        (SLOW, "latency=1s@p99", 4.68),  # the next two from 400,000 requests a rate
        (SLOW, "latency=1s@p95", 5.54),
    ],
)
def test_at_most_five_percent_of_the_peaks_claimed_break_the_promise(
    world: World, slo: str, truth: float
) -> None:
    found = [searched(world, slo, seed) for seed in range(SEEDS)]
    claims = [peak.rate for peak in found if peak.rate is not None]
    assert sum(rate > truth for rate in claims) <= 0.05 * SEEDS, sorted(claims)
    about = [peak.about[0] / truth for peak in found if peak.about]
    assert len(about) >= 0.95 * SEEDS
    assert sum(abs(ratio - 1) <= 0.1 for ratio in about) >= 0.5 * SEEDS, sorted(about)


@pytest.mark.parametrize("slo", ["latency=1s@p99", "latency=1s@p95"])
def test_a_slow_server_has_a_likely_peak_where_none_can_be_proven(slo: str) -> None:
    truth = {"p99": 4.68, "p95": 5.54}[slo[-3:]]
    for seed in range(3):
        peak = searched(SLOW, slo, seed)
        assert peak.about is not None
        assert 0.6 * truth < peak.about[0] < 1.5 * truth
        assert peak.about[1] < peak.about[0] < peak.about[2]
        assert peak.rate is None or peak.rate < truth


def test_a_median_over_the_limit_breaks_every_promise_and_is_said() -> None:
    peak = searched(World("constant", 0.4, 64), "latency=300ms@p99", 0)
    assert peak.rate is None
    assert peak.about is None
    assert peak.broken is not None


@pytest.mark.parametrize(("slope", "tail"), [(6.0, 0.01), (12.0, 0.05), (9.0, 0.1)])
def test_the_likely_peak_is_where_exact_shares_cross_the_tail(slope: float, tail: float) -> None:
    rates = np.array([5.0, 8.0, 9.0, 10.0, 11.0, 20.0])
    logit = math.log(tail / (1 - tail)) + slope * np.log(rates / 10)
    middle, low, high = likely(rates, 1 / (1 + np.exp(-logit)), np.full(6, 400.0), tail)
    assert middle == pytest.approx(10, rel=0.05)
    assert low <= middle <= high < 1.5 * low


def test_where_the_generator_was_late_no_longer_budget_is_advised() -> None:
    fault = Check("late", "fail", "the generator was late", "--senders 2")

    def measure(rate: float, seconds: float) -> Case:
        made = level(World("constant", rate=float(f"{rate:.4g}")), seconds, 1, slo=SLO)
        return structs.replace(made, checks=[fault])

    peak = find_peak(measure, promises(SLO), start=25.0, budget=20.0)
    assert (peak.rate, peak.sentence, peak.advice) == (None, fault.sentence, fault.next)
