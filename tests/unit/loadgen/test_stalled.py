"""A generator that stood still: what counts is how much of a figure that may be."""

from __future__ import annotations

import pytest
from msgspec import structs

from fixtures.virtual_load import constant, level
from laptime.analysis.load import level_stats
from laptime.loadgen.checks import find_stall
from laptime.records.check import Check
from laptime.records.details import Details
from laptime.records.load import Alone


def judged(stalls: list[list[float]], *, seconds: float = 5.0, alone: Alone | None = None) -> Check | None:
    case = level(10, seconds, constant(0.02), 1)
    facts = case.details.load
    assert facts is not None
    made = [[facts.begin + at, length] for at, length in stalls]
    facts = structs.replace(facts, stalls=made, alone=alone)
    case = structs.replace(case, details=Details(load=facts, unit="request"))
    return find_stall(case, level_stats(case))


def test_a_short_level_survives_the_stalls_of_a_busy_machine() -> None:
    """Fifty requests, three of them under way in a stall: 6 % of the requests, 2 % of the mean."""
    told = judged([[at, 0.008] for at in (0.5, 1.5, 2.5, 3.5, 4.5)])
    assert told is None or told.outcome == "note"


def test_a_second_without_the_generator_is_never_a_slow_server() -> None:
    told = judged([[1.0, 1.0]])
    assert told is not None
    assert told.outcome == "fail"
    assert "late, not" in told.sentence


@pytest.mark.parametrize(("late", "advice"), [(0.04, "nothing else to do"), (0.0001, "taskset")])
def test_who_stood_still_on_loopback_too_has_a_busy_machine(late: float, advice: str) -> None:
    alone = Alone(rate=500, late=late, cpu=0.1, capacity=3500)
    told = judged([[at / 10, 0.02] for at in range(50)], alone=alone)
    assert told is not None
    assert told.outcome == "fail"
    assert advice in told.next


@pytest.mark.parametrize("stalls", [[], [[100.0, 0.5]]])
def test_no_stall_or_one_while_nothing_was_under_way_is_nothing_to_tell(stalls: list[list[float]]) -> None:
    assert judged(stalls) is None
