from __future__ import annotations

import math

import numpy as np
import pytest
from msgspec import structs

from fixtures.runs import LATENCY, case, facts, single, timings
from laptime.analysis.evidence import select
from laptime.analysis.summary import headline, main_throughput, quantile_interval, summarize, throughput
from laptime.measure.passes import PEAK_RATE
from laptime.records.series import Label, Series

WAITED, WARM, GC = int(Label.WAITED), int(Label.WARM_UP), int(Label.GC)


def series(samples: list[float], label: list[int] | None = None, **more: object) -> Series:
    made = Series(metric=LATENCY, regime="isolated", samples=samples, label=label or [])
    return structs.replace(made, **more)


def test_warm_up_and_disturbed_samples_are_excluded() -> None:
    found = select(series([9.0, 9.0, *[1.0] * 8, 5.0], [WARM, WARM, *[0] * 8, WAITED]))
    assert found.values.tolist() == [1.0] * 8
    assert found.basis == "undisturbed"
    assert found.warm_up == 2
    assert found.disturbed == pytest.approx(1 / 9)
    assert found.causes == {"waited": 1}


def test_garbage_collection_is_the_programs_own_and_stays() -> None:
    found = select(series([1.0] * 7 + [3.0], [0] * 7 + [GC]))
    assert found.values.tolist() == [1.0] * 7 + [3.0]
    assert found.disturbed == 0


def test_too_few_undisturbed_samples_let_the_disturbed_in() -> None:
    found = select(series([9.0] + [1.0] * 2 + [2.0] * 10, [WARM] + [0] * 2 + [WAITED] * 10))
    assert found.basis == "settled"
    assert len(found.values) == 12
    assert 9.0 not in found.values


def test_few_undisturbed_samples_tell_the_level_and_the_others_the_interval() -> None:
    hit = series([9.0] + [1.0] * 5 + [2.0] * 10, [WARM] + [0] * 5 + [WAITED] * 10)
    found = select(hit)
    assert found.basis == "few"
    assert found.values.tolist() == [1.0] * 5
    assert quantile_interval(hit, 0.5) == (1.0, 2.0)


def test_nothing_but_warm_up_is_all_there_is() -> None:
    found = select(series([3.0, 2.0], [WARM, WARM]))
    assert found.basis == "all"
    assert found.values.tolist() == [3.0, 2.0]


def test_few_samples_without_any_trouble_are_undisturbed() -> None:
    assert select(series([1.0, 1.0])).basis == "undisturbed"


def test_one_clean_sample_does_not_outvote_five_disturbed_ones() -> None:
    found = select(series([1.0] + [2.0] * 5, [0] + [WAITED] * 5))
    assert found.basis == "settled"


def test_throughput_is_total_work_over_total_time() -> None:
    """The mean of reciprocals of 1 s and 3 s would be 0.667 calls/s; two calls in four seconds are 0.5."""
    stat = throughput(series([1.0, 3.0] * 10), batch=4)
    assert stat.value == pytest.approx(4 * 0.5)
    assert stat.unit == "1/s"


def test_throughput_of_blocks_weighs_each_by_its_calls() -> None:
    """10 calls of 1 s and 30 of 2 s: 40 calls in 70 s."""
    blocks = series([1.0, 2.0], calls=[10, 30], regime="saturated")
    assert throughput(blocks, batch=1).value == pytest.approx(40 / 70)


@pytest.mark.parametrize(
    ("n", "hidden", "shown"),
    [(20, ["p5", "p90", "p95", "p99"], ["median"]), (100, ["p99"], ["median", "p90"])],
)
def test_percentile_without_support_is_not_a_number(n: int, hidden: list[str], shown: list[str]) -> None:
    dice = np.random.default_rng(1)
    stats = summarize(case(series(dice.uniform(1, 2, n).tolist())))
    for name in hidden:
        stat = stats[f"latency/isolated/{name}"]
        assert stat.value is None
        assert stat.ci95 is None
        needed = {"p5": 72, "p90": 36, "p95": 72, "p99": 368}[name]
        assert stat.note.startswith(f"{name} needs {needed} samples, has ")
        assert int(stat.note.rpartition(" ")[2]) < needed
    for name in shown:
        assert stats[f"latency/isolated/{name}"].value is not None
        assert stats[f"latency/isolated/{name}"].ci95 is not None


def test_median_of_five_samples_is_told_without_an_interval() -> None:
    stat = summarize(case(series([1.0, 2.0, 3.0, 4.0, 5.0])))["latency/isolated/median"]
    assert stat.value == 3.0
    assert stat.ci95 is None


def test_blocks_have_no_tail_and_no_extremes() -> None:
    blocks = series([1.0] * 80, calls=[10] * 80, regime="saturated")
    assert set(summarize(case(blocks))) == {
        "latency/saturated/median",
        "latency/saturated/mean",
        "throughput/saturated",
    }


def test_two_processes_that_disagree_widen_the_interval_to_both() -> None:
    dice = np.random.default_rng(2)
    a, b = dice.normal(1.00, 0.001, 100), dice.normal(1.05, 0.001, 100)
    together = series([*a, *b], process=[0] * 100 + [1] * 100)
    ends = quantile_interval(together, 0.5)
    assert ends is not None
    assert ends[0] <= np.median(a)
    assert ends[1] >= np.median(b)


def test_three_processes_that_disagree_widen_the_interval_beyond_all() -> None:
    dice = np.random.default_rng(3)
    levels = [1.0, 1.02, 1.04]
    samples = [float(x) for level in levels for x in dice.normal(level, 0.001, 100)]
    ends = quantile_interval(series(samples, process=[0] * 100 + [1] * 100 + [2] * 100), 0.5)
    assert ends is not None
    # Student's t with 2 degrees of freedom: 4.303 x 0.0196 / sqrt(3) around 1.02.
    assert math.log(ends[1] / ends[0]) / 2 == pytest.approx(4.303 * 0.0196 / math.sqrt(3), rel=0.05)


def test_processes_that_agree_keep_the_interval_narrow() -> None:
    dice = np.random.default_rng(4)
    samples = dice.normal(1, 0.01, 300).tolist()
    pooled = quantile_interval(series(samples), 0.5)
    apart = quantile_interval(series(samples, process=[0] * 100 + [1] * 100 + [2] * 100), 0.5)
    assert pooled is not None
    assert apart is not None
    assert apart[1] - apart[0] < 4 * (pooled[1] - pooled[0])


def test_achieved_flops_follow_from_count_and_throughput() -> None:
    measured = case(
        timings(0.010, spread=0.001),
        *facts(batch=2),
        Series(metric=PEAK_RATE, samples=[2e12] * 3),
        axes={"batch": 2},
        details={"physical_cores": 2, "peak": {"flops": 2e12, "source": "measured GEMM"}},
    )
    stats = summarize(measured)
    assert stats["flops/achieved"].value == pytest.approx(2 * 3.628e9 / 0.010, rel=0.01)
    assert stats["flops/achieved"].unit == "FLOP/s"
    assert stats["flops/per_core"].value == pytest.approx(3.628e9 / 0.010, rel=0.01)
    share = stats["flops/share_of_peak"]
    assert share.value == pytest.approx(2 * 3.628e9 / 0.010 / 2e12, rel=0.01)
    assert share.ci95 is not None
    assert share.ci95[0] < (share.value or 0) < share.ci95[1]
    assert share.note == "measured GEMM"


def test_no_flops_without_a_count() -> None:
    assert not any(tag.startswith("flops") for tag in summarize(case(timings(0.01))))


def test_exact_counts_have_no_interval() -> None:
    stat = summarize(case(single("params/all", "1", 11e6)))["params/all"]
    assert stat.value == 11e6
    assert stat.ci95 is None
    assert stat.precision is None


def test_disturbance_columns_are_evidence_and_no_results() -> None:
    assert summarize(case(single("disturbance/waited", "s", 0.1))) == {}
    assert headline(case(single("disturbance/waited", "s", 0.1))) is None


def test_headline_is_the_isolated_median_where_there_is_one() -> None:
    isolated, saturated = timings(0.01), timings(0.008, regime="saturated")
    assert headline(case(saturated, isolated)).tag == "latency/isolated/median"
    assert headline(case(saturated)).tag == "latency/saturated/median"
    assert main_throughput(case(saturated, isolated)).tag == "throughput/saturated"
    assert main_throughput(case(isolated)).tag == "throughput/isolated"
    assert main_throughput(case()) is None


def test_note_tells_what_was_excluded() -> None:
    stat = headline(case(series([1.0] * 9 + [3.0], [0] * 9 + [WAITED])))
    assert stat is not None
    assert stat.value == 1.0
    assert "10% disturbed" in stat.note


def test_throughput_with_noise_larger_than_itself_has_no_upper_end() -> None:
    stat = throughput(series([1e-3, 1e-3, 100.0]), batch=1)
    assert stat.ci95 is not None
    assert stat.ci95[1] == math.inf


def test_throughput_of_disturbed_samples_alone_is_not_the_one_that_is_told() -> None:
    """Calls back to back all waited, and agree with each other; calls one by one are sound."""
    waited = [int(Label.WAITED)] * 20
    crowded = structs.replace(timings(0.02, n=20, spread=0.0001, regime="saturated"), label=waited)
    rate = main_throughput(case(crowded, timings(0.01, spread=0.01)))
    assert rate is not None
    assert rate.regime == "isolated"


def test_a_throughput_without_an_upper_end_is_told_by_its_lower_one() -> None:
    """One call of 100 s among calls of 1 ms: 0.03/s is no throughput of a program that takes 1 ms."""
    stat = summarize(case(series([1e-3, 1e-3, 100.0])))["throughput/isolated"]
    assert stat.ci95 is not None
    assert stat.at_least
    assert stat.value == stat.ci95[0]
    assert stat.text.startswith("at least ")
