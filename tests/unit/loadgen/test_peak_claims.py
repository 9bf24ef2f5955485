"""How often a peak is claimed that the server cannot hold: M/M/1 and M/D/1, whose tails are closed forms."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec import structs

from fixtures.virtual_load import constant, exponential, level
from laptime.analysis.promises import promises
from laptime.records.case import Case
from laptime.records.check import Check
from laptime.verbs.load.peak import find_peak

S, SEEDS = 0.020, 100
SLO = "latency=200ms@p99"


def claimed(service: Callable[[], float], seed: int) -> float | None:
    """The peak that a search claims in its default budget."""
    levels = 0

    def measure(rate: float, seconds: float) -> Case:
        nonlocal levels
        levels += 1
        return level(float(f"{rate:.4g}"), seconds, service, 1000 * seed + levels, slo=SLO)

    return find_peak(measure, promises(SLO), start=0.5 / S, budget=240.0).rate


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("is_exponential", "truth"),
    [
        (True, 26.97),  # p99 of the time in an M/M/1 queue: ln(100) / (1/S - rate)
        (False, 38.67),  # M/D/1: Crommelin's sum (1932), solved for the rate
    ],
)
def test_at_most_five_percent_of_the_peaks_claimed_break_the_promise(
    is_exponential: bool, truth: float
) -> None:
    claims = [claimed(exponential(S, seed) if is_exponential else constant(S), seed) for seed in range(SEEDS)]
    made = [rate for rate in claims if rate is not None]
    false = [rate for rate in made if rate > truth]
    assert len(false) <= 0.05 * len(made), (len(made), sorted(false))
    assert len(made) >= 0.5 * SEEDS, len(made)
    assert sorted(made)[len(made) // 2] >= 0.55 * truth


def test_where_the_generator_was_late_no_longer_budget_is_advised() -> None:
    fault = Check("late", "fail", "the generator was late", "--senders 2")

    def measure(rate: float, seconds: float) -> Case:
        made = level(float(f"{rate:.4g}"), seconds, constant(S), 1, slo=SLO)
        return structs.replace(made, checks=[fault])

    peak = find_peak(measure, promises(SLO), start=0.5 / S, budget=20.0)
    assert (peak.rate, peak.sentence, peak.advice) == (None, fault.sentence, fault.next)
