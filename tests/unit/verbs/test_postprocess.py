from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from fixtures import runs
from laptime.measure import metrics
from laptime.records.case import Case, Failure
from laptime.records.check import Check
from laptime.records.plan import Setting
from laptime.records.series import Label, Series
from laptime.verbs.bench.postprocess import comparisons, complete, findings

PLAN = {"precision": Setting(value=0.02)}


def measured(batch: int, seconds: float, *, target: str = runs.TARGET, regime: str = "isolated") -> Case:
    series = runs.timings(seconds, seed=batch, spread=0.001, regime=regime)
    return runs.case(series, target=target, axes={"batch": batch})


def knee_of(*calls: float, largest: int | None = None, last: int = 0) -> Any:
    """What is found of calls with 1, 2, 4 ... items; `last` is the size of the last one instead."""
    sizes = [2**i for i in range(len(calls))]
    sizes[-1] = last or sizes[-1]
    cases = [measured(size, seconds) for size, seconds in zip(sizes, calls, strict=True)]
    return next((each for each in findings(cases, largest=largest) if each.kind == "batch/knee"), None)


def test_knee_is_the_smallest_batch_near_the_best_throughput() -> None:
    """100, 180, 198.5, 200 items a second: batch 4 is within 3 % of the best."""
    found = knee_of(1 / 100, 2 / 180, 4 / 198.5, 8 / 200)
    assert found.evidence["knee"] == 4
    assert found.evidence["candidates"] == [4]
    assert found.evidence["best"] == 8
    assert "not measured" in found.sentence
    assert found.evidence["throughput"]["4"] == pytest.approx(198.5, rel=0.01)


def test_throughput_that_falls_again_has_its_knee_below_the_best() -> None:
    found = knee_of(1 / 100, 2 / 250, 4 / 240)
    assert found.evidence["knee"] == found.evidence["best"] == 2
    assert "larger ones" not in found.sentence


def test_one_batch_has_no_knee() -> None:
    assert knee_of(0.01) is None


def test_a_knee_that_nobody_can_prove_is_unclear_and_says_what_to_do() -> None:
    """2.9 % below the best is within 3 % of it, but no such rounds prove that."""
    found = knee_of(1 / 100, 2 / 194.2, 4 / 200, 8 / 200)
    assert found.evidence["knee"] is None
    assert "2 and 4" in found.sentence
    assert found.next.startswith("--batch 2,4")


@pytest.mark.parametrize("largest", [None, 100])
def test_no_knee_while_throughput_rises(largest: int | None) -> None:
    found = knee_of(1 / 100, 2 / 150, 4 / 190, 8 / 230, largest=largest)
    assert found.evidence["knee"] is None
    assert "at batch 8" in found.sentence
    assert found.next.startswith("--batch 8,16,32")


def test_the_largest_that_fits_may_be_the_best() -> None:
    """32 fits, and so does 37, which gives 5.7 % more."""
    calls = (1 / 40, 2 / 60, 4 / 75, 8 / 87, 16 / 94, 32 / 100, 37 / 105.7)
    found = knee_of(*calls, largest=37, last=37)
    assert found.evidence["knee"] == found.evidence["best"] == 37
    assert "batch 37" in found.sentence


def test_invalid_cases_are_the_ground_of_no_finding() -> None:
    fail = Check(name="finite", outcome="fail", sentence="its outputs are not finite")
    cases = [structs.replace(measured(b, 0.01 * b**0.5), checks=[fail]) for b in (1, 2, 4)]
    assert not [each for each in findings(cases) if each.kind == "batch/knee"]
    waits = runs.case(runs.timings(0.010), runs.timings(0.004, regime="device"), checks=[fail])
    assert findings([waits]) == []


def first_call(seconds: float) -> Series:
    return Series(metric=metrics.FIRST_CALL, samples=[seconds])


def test_warm_up_costs_the_first_call_and_all_before_the_level() -> None:
    case = runs.case(first_call(0.5), runs.timings(0.01, n=100, warm_up=5, processes=1, spread=0.001))
    found = complete(case, runs.environment(), PLAN)
    cost = found.find("time/warm_up")
    assert cost is not None
    assert cost.samples[0] == pytest.approx(0.5 + 5 * 0.018, rel=0.02)
    assert "5 more" in cost.note


def test_a_cold_start_is_import_load_and_first_call_and_no_export() -> None:
    parts = [(metrics.IMPORT, 2.0), (metrics.LOAD, 0.3), (metrics.EXPORT, 60.0)]
    series = [Series(metric=metric, samples=[seconds]) for metric, seconds in parts]
    case = runs.case(first_call(0.5), *series, runs.timings(0.01, n=100))
    found = complete(case, runs.environment(), PLAN).find("time/cold_start")
    assert found is not None
    assert found.samples == [pytest.approx(2.8)]


def test_a_start_of_which_a_part_is_unknown_is_not_told() -> None:
    case = runs.case(first_call(0.5), runs.timings(0.01, n=100))
    assert complete(case, runs.environment(), PLAN).find("time/cold_start") is None


def test_what_a_compiler_told_is_not_estimated() -> None:
    told = Series(metric=metrics.COMPILE, samples=[0.4])
    case = runs.case(first_call(0.5), told, runs.timings(0.01, n=100), axes={"compile": "default"})
    found = complete(case, runs.environment(), PLAN).find("time/compile")
    assert found is not None
    assert found.samples == [0.4]


@pytest.mark.parametrize("at", [0, 1])
def test_there_is_no_winner_where_one_side_computes_something_else(at: int) -> None:
    cases = [measured(1, 0.02), measured(1, 0.01, target="b:c")]
    (fair,) = comparisons(cases)
    assert fair.word == "faster"
    other = Check(name="agreement", outcome="fail", sentence="its outputs differ from the original's")
    cases[at] = structs.replace(cases[at], checks=[other])
    (found,) = comparisons(cases)
    assert found.word == "unclear"
    assert found.sentence.endswith(other.sentence)
    assert found.ci95 == fair.ci95


def test_warm_up_of_later_processes_is_not_added_up() -> None:
    case = runs.case(first_call(0.5), runs.timings(0.01, n=200, warm_up=5, processes=2, spread=0.001))
    cost = complete(case, runs.environment(), PLAN).find("time/warm_up")
    assert cost is not None
    assert cost.samples[0] == pytest.approx(0.5 + 5 * 0.018, rel=0.02)


def test_compile_time_is_told_only_where_a_compiler_ran() -> None:
    series = (first_call(20.0), runs.timings(0.01, n=100))
    plain = complete(runs.case(*series), runs.environment(), PLAN)
    assert plain.find("time/compile") is None
    compiled = complete(runs.case(*series, axes={"compile": "default"}), runs.environment(), PLAN)
    found = compiled.find("time/compile")
    assert found is not None
    assert found.samples[0] == pytest.approx(19.99, abs=0.01)


def test_judging_twice_changes_nothing() -> None:
    case = runs.case(first_call(0.5), runs.timings(0.01, n=100, warm_up=5, disturbed=0.1))
    once = complete(case, runs.environment(), PLAN)
    assert complete(once, runs.environment(), PLAN) == once


def test_a_failed_case_is_not_checked() -> None:
    failed = runs.failing(Failure(kind="died", what="x"))
    assert complete(failed, runs.environment(), PLAN).checks == []


def test_equal_batches_are_compared_across_targets() -> None:
    cases = [measured(b, 0.01 * b, target=t) for t in ("a", "b", "c") for b in (1, 8)]
    found = [(each.baseline, each.candidate) for each in comparisons(cases)]
    key = {(case.target, case.batch): case.key for case in cases}
    for target in ("b", "c"):
        for batch in (1, 8):
            assert (key["a", batch], key[target, batch]) in found


def test_an_architecture_is_held_against_its_own() -> None:
    names = ("torchvision:resnet18", "torchvision:resnet50", "timm:resnet18", "keras:ResNet50")
    cases = [measured(1, 0.01, target=name) for name in names]
    found = [(each.baseline, each.candidate) for each in comparisons(cases)]
    keys = [case.key for case in cases]
    assert found == [(keys[0], keys[1]), (keys[0], keys[2]), (keys[1], keys[3])]


def test_batches_of_one_target_are_compared_by_item() -> None:
    """Twice the items in 1.5 times the time is 1.33 times the speed."""
    (found,) = comparisons([measured(1, 0.010), measured(2, 0.015)])
    assert found.metric == "time per item/isolated"
    assert found.speedup == pytest.approx(4 / 3, rel=0.01)
    assert found.word == "faster"


def test_a_failed_baseline_leaves_its_place_to_the_next() -> None:
    failed = runs.failing(Failure(kind="died", what="x"), target="a")
    cases = [failed, measured(1, 0.01, target="b"), measured(1, 0.02, target="c")]
    (found,) = comparisons(cases)
    assert found.baseline == cases[1].key


def test_a_device_that_waits_for_its_host_is_a_finding() -> None:
    case = runs.case(runs.timings(0.010), runs.timings(0.004, regime="device"))
    (found,) = findings([case])
    assert found.kind == "latency/host_bound"
    assert found.evidence["device"] == pytest.approx(0.004, rel=0.02)
    busy = runs.case(runs.timings(0.010), runs.timings(0.0095, regime="device"))
    assert findings([busy]) == []


def faults(number: float, seconds: float, device: str = "cpu") -> list[str]:
    """Kinds of findings of a case whose calls make so many page faults."""
    counted = Series(metric=metrics.PAGE_FAULTS, samples=[number])
    series = runs.timings(seconds, seed=1, spread=0.001, regime="isolated")
    case = runs.case(series, counted, axes={"batch": 8, "device": device})
    return [each.kind for each in findings([case])]


def test_an_allocator_that_gives_its_memory_back_is_explained() -> None:
    assert faults(85_000, 0.2) == ["memory/page_faults"]
    assert faults(100, 0.2) == []
    assert faults(85_000, 0.2, device="cuda:0") == []


def test_no_knee_where_the_largest_may_still_be_better() -> None:
    """200 and 203 items a second at 4 and 8: nobody can prove that the larger one is no better."""
    found = knee_of(1 / 100, 2 / 180, 4 / 199, 8 / 204.5)
    assert found.evidence["knee"] is None
    assert "no knee" in found.sentence
    assert "smallest batch" not in found.sentence


def test_no_finding_from_disturbed_cases() -> None:
    cases = []
    for size in (1, 2, 4):
        made = measured(size, 0.01 * size**0.5)
        series = [structs.replace(each, label=[int(Label.CLOCK)] * len(each.samples)) for each in made.series]
        cases.append(structs.replace(made, series=series))
    assert not [each for each in findings(cases) if each.kind == "batch/knee"]
