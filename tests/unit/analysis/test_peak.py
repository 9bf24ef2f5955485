"""A measured peak is quoted only where its blocks agree and nothing disturbed them."""

from __future__ import annotations

import pytest

from fixtures.runs import case, facts, timings
from laptime.analysis.achieved import TAG, estimate_peak
from laptime.analysis.stat import Stat
from laptime.analysis.summary import summarize
from laptime.measure.labels import WAITED_SHARE
from laptime.measure.passes import LOST_SHARE, PEAK_RATE
from laptime.records.case import Case
from laptime.records.series import Label, Series

WORK = 3.628e9


def beside(rates: list[float], *, label: list[int] | None = None, latency: float = 0.01) -> Case:
    """A case of `WORK` FLOPs with these blocks of the peak."""
    blocks = Series(metric=PEAK_RATE, samples=rates, label=label or [])
    details = {"peak": {"flops": 1.0, "source": "of the measured float32 GEMM peak"}}
    return case(timings(latency, spread=0.001), *facts(), blocks, details=details)


def share(measured: Case) -> Stat:
    return summarize(measured)["flops/share_of_peak"]


def test_the_intervals_of_both_are_in_the_share() -> None:
    told = share(beside([7.0e11, 7.2e11, 7.1e11, 7.3e11]))
    assert told.value == pytest.approx(WORK / 0.01 / 7.15e11, rel=0.01)
    assert told.ci95 is not None
    low, high = told.ci95
    assert high / low - 1 > 0.05  # that of the latency alone is a hundredth of it
    assert "float32 GEMM" in told.note


@pytest.mark.parametrize(
    ("rates", "why"),
    [
        ([98e9, 226e9, 220e9, 101e9], "swings by ±"),
        ([7e11, 7e11], "2 of 2 blocks of the peak were undisturbed, 3 are needed"),
        ([1.8e11, 1.81e11, 1.79e11], "2.0"),
    ],
)
def test_no_share_is_told_without_a_sound_peak(rates: list[float], why: str) -> None:
    told = share(beside(rates))
    assert told.value is None
    assert told.ci95 is None
    assert why in told.note


def test_disturbed_blocks_are_left_out_and_must_not_be_the_most() -> None:
    waited = int(Label.WAITED)
    peak = estimate_peak(beside([7e11, 3e11, 7e11, 7e11], label=[0, waited, 0, 0]))
    assert peak is not None
    assert peak.quantity is not None
    assert peak.quantity.value == pytest.approx(7e11)
    crowded = estimate_peak(beside([7e11] * 3 + [3e11] * 17, label=[0] * 3 + [waited] * 17))
    assert crowded is not None
    assert crowded.quantity is None
    assert [word for word in crowded.why_not.split() if word.isdigit()] == ["3", "20", "5"]


def test_a_peak_that_was_measured_once_is_not_quoted() -> None:
    told = share(case(timings(0.01), *facts(), details={"peak": {"flops": 98e9}}))
    assert told.value is None
    assert "measured once" in told.note


def test_the_series_is_the_one_that_workers_make() -> None:
    assert PEAK_RATE.tag == TAG
    assert LOST_SHARE == WAITED_SHARE


def test_where_nobody_measured_a_peak_there_is_no_word_of_it() -> None:
    assert "flops/share_of_peak" not in summarize(case(timings(0.01), *facts()))
