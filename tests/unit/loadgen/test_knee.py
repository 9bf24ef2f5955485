"""The knee of queues whose knee is a closed form: where rate over mean time is largest.

M/M/1: rate x (mu - rate) is largest at mu/2, 25/s at 20 ms. M/D/1: rho = 2 - sqrt(2), 29.3/s.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from msgspec import structs

from fixtures import runs
from fixtures.virtual_load import constant, exponential, level
from laptime.records.case import Case
from laptime.records.run import Run, Subject
from laptime.reports.documents.load import curve, data
from laptime.reports.documents.load.levels import list_levels
from laptime.reports.formats import text

S = 0.020
MD1 = (2 - 2**0.5) / S


def run_of(cases: Sequence[Case]) -> Run:
    return structs.replace(runs.run(*cases), verb="load", subjects=[Subject(target="null:exp=20ms")])


def found(cases: Sequence[Case]) -> curve.Knee:
    run = run_of(cases)
    made = curve.knee_of(run, list_levels(run))
    assert made is not None
    return made


def levels(service: Callable[[], float], rates: Sequence[float], seconds: float, seed: int) -> list[Case]:
    return [level(rate, seconds, service, 10 * seed + at) for at, rate in enumerate(rates)]


@pytest.mark.parametrize("seed", range(2))
def test_the_knee_of_an_md1_queue_lies_where_it_is_said_to(seed: int) -> None:
    made = found(levels(constant(S), (5, 15, 25, 35, 60), 200, seed))
    assert made.low is None or made.low < MD1
    assert made.high is not None
    assert MD1 < made.high <= 60
    assert f"{made.high:.0f}/s" in made.sentence


def test_a_grid_that_is_fine_enough_bounds_it_from_both_sides() -> None:
    made = found(levels(constant(S), (5, 10, 25, 38, 60), 800, 1))
    assert made.low is not None
    assert made.low < MD1
    assert "between" in made.sentence


def test_noisy_levels_say_nothing_of_a_knee() -> None:
    cases = levels(exponential(S, 3), (10, 20, 40), 10, 2)
    assert {case.trust for case in cases} == {"noisy"}
    made = found(cases)
    assert (made.low, made.high) == (None, None)
    assert "0 of 3 levels" in made.sentence


def test_below_the_knee_none_is_claimed() -> None:
    made = found(levels(constant(S), (2, 5, 10), 400, 4))
    assert made.high is None
    assert made.low is not None
    assert "above" in made.sentence


def test_of_a_promise_it_is_between_the_level_that_keeps_it_and_the_one_that_breaks_it() -> None:
    slo = "latency=100ms@p95"
    cases = [level(rate, 300, constant(S), 5, slo=slo) for rate in (10, 20, 60)]
    made = found(cases)
    assert (made.low, made.high) == (20, 60)
    assert made.sentence.startswith("between 20/s and 60/s: latency=100ms@p95 holds")


def test_terminal_and_json_say_it_and_one_level_has_none() -> None:
    run = run_of(levels(constant(S), (10, 25, 60), 150, 0))
    made = curve.knee_of(run, list_levels(run))
    assert made is not None
    assert f"knee        {made.sentence[:20]}" in text.render(run, width=120)
    assert data.report(run, list_levels(run))["knee"]["high"] == made.high
    alone = run_of(levels(constant(S), (5,), 30, 0))
    assert curve.knee_of(alone, list_levels(alone)) is None
    assert "knee" not in text.render(alone, width=120)
