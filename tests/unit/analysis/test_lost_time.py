from __future__ import annotations

import numpy as np
import pytest

from fixtures.runs import LATENCY, case
from laptime.analysis.evidence import find_lost
from laptime.analysis.summary import headline, main_throughput, summarize
from laptime.measure.labels import relabel
from laptime.records.case import Case
from laptime.records.series import Metric, Series


def column(name: str, values: np.ndarray) -> Series:
    metric = Metric(tag=f"disturbance/{name}", unit="s", title=name)
    return Series(metric=metric, regime="isolated", samples=values.tolist())


def slow_as_a_whole(factor: float, *, n: int = 200) -> Case:
    """10 ms of work on CPUs that are so many times slower than they were in an earlier run."""
    noise = np.random.default_rng(1).lognormal(0, 0.01, n)
    latency = Series(metric=LATENCY, regime="isolated", samples=(0.01 * factor * noise).tolist())
    ruler = column("ruler", np.full(n, 20e-6 * factor))
    return relabel(case(latency, ruler, details={"known_work": 20e-6}), virtual=True)[0]


@pytest.mark.parametrize("factor", [1.3, 1.7])
def test_an_interval_of_slow_samples_alone_reaches_the_speed_without_what_slowed_them(factor: float) -> None:
    of = slow_as_a_whole(factor)
    stat = headline(of)
    assert stat is not None
    assert stat.ci95 is not None
    assert stat.value == pytest.approx(0.01 * factor, rel=0.01)
    assert stat.ci95[0] < 0.01 < stat.ci95[1]
    rate = main_throughput(of)
    assert rate is not None
    assert rate.ci95 is not None
    assert rate.ci95[0] < 100 < rate.ci95[1]
    p95 = summarize(of)["latency/isolated/p95"]
    assert p95.ci95 is not None
    assert p95.ci95[0] < 0.0102


def test_where_others_are_left_the_interval_is_theirs() -> None:
    slow = np.arange(200) % 2 == 0
    latency = Series(metric=LATENCY, regime="isolated", samples=np.where(slow, 0.015, 0.01).tolist())
    of, _ = relabel(case(latency, column("ruler", np.where(slow, 30e-6, 20e-6))), virtual=True)
    stat = headline(of)
    assert stat is not None
    assert stat.ci95 == pytest.approx((0.01, 0.01))


def test_no_sample_loses_more_than_it_took() -> None:
    latency = Series(metric=LATENCY, regime="isolated", samples=[0.01] * 10)
    of = case(latency, column("waited", np.full(10, 0.03)), column("ruler", np.full(10, 20e-6)))
    assert find_lost(of, latency) == pytest.approx([0.01] * 10)


def test_what_the_cpus_worked_was_not_lost() -> None:
    """Two threads waited for 9 ms each, but did 12 ms of work on two CPUs: 4 ms of 10 were lost at most."""
    latency = Series(metric=LATENCY, regime="isolated", samples=[0.01] * 10)
    columns = (column("waited", np.full(10, 0.018)), column("cpu", np.full(10, 0.012)))
    of = case(latency, *columns, details={"usable_cpus": 2.0})
    assert find_lost(of, latency) == pytest.approx([0.004] * 10)


def test_a_slow_cpu_lengthens_what_was_not_waited() -> None:
    latency = Series(metric=LATENCY, regime="isolated", samples=[0.01] * 10)
    columns = (column("waited", np.full(10, 0.004)), column("ruler", np.full(10, 30e-6)))
    of = case(latency, *columns, details={"known_work": 20e-6})
    assert find_lost(of, latency) == pytest.approx([0.004 + 0.006 / 3] * 10)
