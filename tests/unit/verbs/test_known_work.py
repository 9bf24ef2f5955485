from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.runs import case, timings
from laptime.kit.clock import SystemClock
from laptime.measure.labels import relabel
from laptime.probes.ruler import RULER
from laptime.records.case import Case
from laptime.records.series import Label, Series
from laptime.store import cache
from laptime.verbs.bench import postprocess


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAPTIME_CACHE", str(tmp_path))
    monkeypatch.setattr(postprocess, "_boot", lambda clock: "boot-1" if clock is SystemClock else None)


def ruled(seconds: float, **details: object) -> Case:
    latency = timings(0.01, n=20)
    column = Series(metric=RULER, regime=latency.regime, samples=[seconds] * len(latency.samples))
    return case(latency, column, details=details)


def test_the_best_of_all_runs_is_kept() -> None:
    assert postprocess.best_known(SystemClock) is None
    for seconds, best in [(22e-6, 22e-6), (30e-6, 22e-6), (20e-6, 20e-6)]:
        postprocess.remember([ruled(seconds)], SystemClock)
        assert postprocess.best_known(SystemClock) == best


def test_a_scripted_machine_and_a_run_without_a_ruler_leave_nothing() -> None:
    class Scripted(SystemClock): ...

    postprocess.remember([ruled(1e-6)], Scripted)
    postprocess.remember([case(timings(0.01))], SystemClock)
    assert postprocess.best_known(SystemClock) is None


def test_a_damaged_note_is_none() -> None:
    cache.put("ruler", "boot-1", {"seconds": "fast"})
    assert postprocess.best_known(SystemClock) is None


@pytest.mark.parametrize(("known", "slow"), [(20e-6, True), (28e-6, False), (40e-6, False)])
def test_a_run_that_was_slow_from_its_beginning_is_disturbed_as_a_whole(known: float, slow: bool) -> None:
    of, _ = relabel(ruled(30e-6, known_work=known), virtual=True)
    assert all(bool(bits & Label.CLOCK) == slow for bits in of.series[0].label)
