"""How near a search comes to the peak, and how often it claims one that the server cannot hold."""

from __future__ import annotations

import math

import numpy as np
import pytest
from msgspec import structs

from fixtures.load_worlds import World, level, numbers, searched
from laptime.analysis.promises import promises
from laptime.analysis.quantiles import Floats
from laptime.analysis.queues import Queue, queue_of
from laptime.records.case import Case
from laptime.records.check import Check
from laptime.verbs.load.levels import PeakLevel, find_peak, likely
from laptime.verbs.load.request import LoadRequest
from laptime.verbs.load.run import _finding

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
    assert sum(abs(ratio - 1) <= 0.1 for ratio in about) >= 0.8 * SEEDS, sorted(about)


@pytest.mark.parametrize("slo", ["latency=1s@p99", "latency=1s@p95"])
def test_a_slow_server_has_a_likely_peak_where_none_can_be_proven(slo: str) -> None:
    truth = {"p99": 4.68, "p95": 5.54}[slo[-3:]]
    for seed in range(3):
        peak = searched(SLOW, slo, seed)
        assert peak.about is not None
        assert peak.about[0] == pytest.approx(truth, rel=0.1)
        assert peak.about[1] < peak.about[0] < peak.about[2]
        assert peak.rate is None or peak.rate < truth


@pytest.mark.parametrize(
    ("world", "slo", "truth"),
    [
        (World("uniform", 0.3, 1), "latency=1s@p95", 1.68),
        (World("lognormal", 0.1, 2), "latency=400ms@p90", 11.9),
        (World("constant", 1.0, 8), "latency=2s@p95", 6.78),
    ],
)
def test_few_answers_and_heavy_tails_tell_the_peak_within_ten_percent(
    world: World, slo: str, truth: float
) -> None:
    about = [searched(world, slo, seed).about for seed in range(5)]
    assert sum(each is not None and abs(each[0] / truth - 1) <= 0.1 for each in about) >= 4, about


@pytest.mark.parametrize(
    ("world", "slo", "truth"),
    [
        (World(works="shares"), "latency=200ms@p95", 32.2),
        (World("constant", 0.4, 16, works="batches"), "latency=2s@p95", 20.8),
    ],
)
def test_the_peak_of_a_server_that_is_no_queue_of_slots_is_told_within_ten_percent(
    world: World, slo: str, truth: float
) -> None:
    peaks = [searched(world, slo, seed) for seed in range(5)]
    about = [peak.about[0] / truth for peak in peaks if peak.about]
    assert sum(abs(each - 1) <= 0.1 for each in about) >= 4, about
    assert all(peak.rate is None or peak.rate < truth for peak in peaks)


def seen(world: World, *rates: float) -> list[tuple[Floats, Floats]]:
    """When requests came and what they took, of 60 s at each rate."""
    made = [numbers(level(world._replace(rate=rate), 60, seed)).requests for seed, rate in enumerate(rates)]
    return [(rows.due, rows.latency) for rows in made]


@pytest.mark.parametrize("law", ["constant", "exponential", "bimodal"])
@pytest.mark.parametrize("slots", [1, 3, 8])
def test_the_slots_of_a_queue_are_seen_and_what_fills_them(law: str, slots: int) -> None:
    world = World(law, 0.2, slots)
    queue = queue_of(seen(world, 2.0 * slots, 4.4 * slots))
    assert queue is not None
    assert abs(queue.slots - slots) <= slots // 8
    assert float(queue.services.mean()) == pytest.approx(0.2, rel=0.15)


def test_a_server_that_is_no_queue_of_slots_is_not_replayed() -> None:
    rng = np.random.default_rng(0)
    due = rng.exponential(0.1, 600).cumsum()
    under_way = np.array([((due < at) & (due > at - 0.5)).sum() for at in due])
    shared = rng.uniform(0.5, 1.5, 600) * 0.1 * (1 + under_way)  # all at once, each slower beside others
    assert queue_of([(due, shared)]) is None
    assert queue_of([(due, np.full(600, 0.01))]) is None, "nobody waited"
    (level_,) = seen(World("constant", 0.2, 1), 4.4)
    failed = level_[1].copy()
    failed[7] = math.inf
    assert queue_of([(level_[0], failed)]) is None
    assert queue_of([]) is None


def test_a_replay_of_exact_services_breaks_where_the_closed_form_does() -> None:
    """M/M/1: the latency is exponential, its q-quantile -ln(1 - q) / (1/S - rate)."""
    rng = np.random.default_rng(1)
    queue = Queue(1, rng.exponential(0.02, 20_000), rng.exponential(1.0, 20_000))
    middle, low, high = queue.breaks(0.2, 0.95)
    assert middle == pytest.approx(50 - math.log(20) / 0.2, rel=0.05)
    assert low < middle < high < 1.2 * low


def test_rates_of_a_peak_are_numbers_that_people_read() -> None:
    request = LoadRequest(target="http://127.0.0.1:1", slo="latency=1s@p99", find_peak=True)
    unproven = PeakLevel(None, 2560.0, None, "why", about=(743.2, 640.0, 821.0))
    assert (
        "about 740 [640, 821]/s, not proven: why; 2,560/s certainly" in _finding(unproven, request).sentence
    )
    proven = PeakLevel(17.53, None, None, "why", about=(27.1, 24.8, 31.2))
    said = _finding(proven, request).sentence
    assert said.startswith("17.5 requests/s keep latency=1s@p99: why")
    assert said.endswith("about 27 [25, 31]/s")


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
