"""Efficiency of threads and instances, and whether second threads of cores pay."""

from __future__ import annotations

import pytest

from fixtures.costs import case
from laptime.analysis.scaling import scaling, siblings_pay
from laptime.analysis.summary import main_throughput
from laptime.records.case import Case
from laptime.records.check import Check


def threads(number: int, rate: float, *, instances: int = 1, spread: float = 0.0) -> Case:
    """A case of which each instance makes `rate` calls a second."""
    axes = {"threads": number, **({"instances": instances} if instances > 1 else {})}
    return case(1 / rate, axes=axes, spread=spread)  # type: ignore[arg-type]


def test_the_throughput_of_instances_is_that_of_all_of_them() -> None:
    stat = main_throughput(threads(1, 10.0, instances=3))
    assert stat is not None
    assert stat.value == pytest.approx(30.0)


def test_efficiency_is_that_of_a_thread_against_one() -> None:
    rows = scaling([threads(1, 10), threads(2, 18), threads(4, 28), threads(1, 9, instances=4)], cores=2.0)
    told = {(row.threads, row.instances): (round(row.efficiency, 3), row.cores, row.siblings) for row in rows}
    assert told == {
        (1, 1): (1.0, 1, False),
        (2, 1): (0.9, 2, False),
        (4, 1): (0.7, 2, True),
        (1, 4): (0.9, 2, True),
    }


def test_second_threads_pay_only_where_intervals_say_so() -> None:
    clear = scaling([threads(2, 20, spread=0.01), threads(4, 25, spread=0.01)], cores=2.0)
    assert siblings_pay(clear) is not None
    same = scaling([threads(2, 20, spread=0.2), threads(4, 20.1, spread=0.2)], cores=2.0)
    assert siblings_pay(same) is None
    unknown = scaling([threads(2, 20), threads(4, 25)], cores=None)
    assert siblings_pay(unknown) is None
    assert unknown[0].siblings is None


def test_one_number_of_threads_is_no_scaling_and_invalid_cases_are_left_out() -> None:
    assert scaling([threads(2, 20)]) == []
    assert scaling([case(0.1), case(0.1, axes={"batch": 8})]) == []
    fail = [Check(name="x", outcome="fail", sentence="no", next="no")]
    assert scaling([threads(1, 20), case(0.1, axes={"threads": 2}, checks=fail)]) == []
