"""Each check on cases that are known to be good or bad."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from msgspec import structs

from fixtures.runs import LATENCY, case, environment, facts, timings
from laptime.analysis.summary import summarize
from laptime.kit.registry import load, names
from laptime.measure.checks import run_all
from laptime.measure.metrics import LATENESS
from laptime.measure.passes import PEAK_RATE
from laptime.probes.scheduler import WAITED
from laptime.records.case import Case
from laptime.records.check import Check
from laptime.records.details import Details, Outputs
from laptime.records.plan import Setting
from laptime.records.series import Label, Metric, Series

PLAN = {"precision": Setting(value=0.02, origin="preset"), "budget": Setting(value=10.0)}


def check(name: str, of: Case, plan: dict[str, Setting] | None = None) -> Check | None:
    found: Check | None = load("checks", name).check(of, environment(), PLAN if plan is None else plan)
    if found is not None:
        assert found.name == name
        assert found.sentence
        assert found.next or found.outcome == "ok" or name == "in_process"
    return found


def outcome(name: str, of: Case, plan: dict[str, Setting] | None = None) -> str | None:
    found = check(name, of, plan)
    return found.outcome if found else None


def labelled(n: int, share: float, label: Label = Label.WAITED) -> Case:
    hit = round(n * share)
    series = Series(
        metric=LATENCY, regime="isolated", samples=[0.01] * n, label=[int(label)] * hit + [0] * (n - hit)
    )
    return case(series)


def test_a_case_without_anything_has_nothing_to_say() -> None:
    for name in names("checks"):
        assert check(name, case()) is None, name


def test_all_checks_come_worst_first() -> None:
    bad = structs.replace(labelled(100, 0.9), details=Details(outputs=Outputs(finite=False)))
    outcomes = [found.outcome for found in run_all(bad, environment(), PLAN)]
    assert outcomes == sorted(outcomes, key=["fail", "warn", "note", "ok"].index)
    assert outcomes[:2] == ["fail", "warn"]


@pytest.mark.parametrize(("share", "word"), [(0.0, None), (0.1, "note"), (0.5, "note"), (0.6, "warn")])
def test_disturbed(share: float, word: str | None) -> None:
    assert outcome("disturbed", labelled(100, share)) == word


def test_disturbed_warns_when_too_few_others_are_left() -> None:
    found = check("disturbed", labelled(10, 0.5))
    assert found is not None
    assert found.outcome == "warn"
    assert "which leaves 5" in found.sentence
    found = check("disturbed", labelled(10, 0.8))
    assert found is not None
    assert "too few" in found.sentence


@pytest.mark.parametrize(
    ("label", "words"),
    [
        (Label.WAITED, "other programs"),
        (Label.STOLEN, "hypervisor"),
        (Label.THROTTLED, "quota"),
        (Label.CLOCK, "slower"),
    ],
)
def test_disturbed_names_the_cause(label: Label, words: str) -> None:
    found = check("disturbed", labelled(100, 0.2, label))
    assert found is not None
    assert "20%" in found.sentence
    assert words in found.sentence


def test_garbage_collection_is_no_disturbance() -> None:
    assert check("disturbed", labelled(100, 0.5, Label.GC)) is None


def with_peak(latency: float, **peak: float) -> Case:
    return case(timings(latency), *facts(), details={"peak": peak})


@pytest.mark.parametrize(
    ("latency", "word"),
    [(0.1, "ok"), (0.0040, "ok"), (0.0035, "fail"), (1e-5, "fail")],
)
def test_faster_than_hardware(latency: float, word: str) -> None:
    """3.628 GFLOP a call; the paper says 1 TFLOP/s: 3.6 ms at least."""
    assert outcome("faster_than_hardware", with_peak(latency, flops=0.8e12, limit=1e12)) == word


@pytest.mark.parametrize(("latency", "word"), [(3.628e9 / 2e12, "ok"), (3.628e9 / 4e12, "fail")])
def test_a_peak_on_paper_alone_is_enough_to_be_too_fast(latency: float, word: str) -> None:
    found = case(timings(latency), *facts(), details={"peak": {"limit": 1e12}})
    assert outcome("faster_than_hardware", found) == word


def test_faster_than_hardware_needs_a_peak_and_a_count() -> None:
    assert check("faster_than_hardware", case(timings(1e-6), *facts())) is None
    assert check("faster_than_hardware", case(timings(1e-6), details={"peak": {"flops": 1e12}})) is None


def test_a_measured_peak_alone_may_have_been_spoilt() -> None:
    assert outcome("faster_than_hardware", with_peak(3.628e9 / 2e12, flops=1e12)) == "ok"
    assert outcome("faster_than_hardware", with_peak(3.628e9 / 4e12, flops=1e12)) == "fail"


@pytest.mark.parametrize(("latency", "word"), [(0.0040, "ok"), (0.0035, "fail")])
def test_the_fastest_block_of_a_swinging_peak_shows_what_the_device_can_do(latency: float, word: str) -> None:
    """3.628 GFLOP a call; 0.85 TFLOP/s and a fifth were seen, the paper says 0.5 TFLOP/s."""
    blocks = Series(metric=PEAK_RATE, samples=[0.3e12, 0.85e12, 0.4e12])
    found = case(timings(latency), *facts(), blocks, details={"peak": {"flops": 0.4e12, "limit": 0.5e12}})
    assert outcome("faster_than_hardware", found) == word


@pytest.mark.parametrize(("finite", "word"), [(True, "ok"), (False, "fail"), (None, None)])
def test_finite(finite: bool | None, word: str | None) -> None:
    assert outcome("finite", case(details={"outputs": {"finite": finite}})) == word


def exported(dtype: str = "float32", against: str = "the original", **found: Any) -> dict[str, Any]:
    known = {
        "output": 0,
        "rms": 1e-6,
        "largest": 1e-5,
        "absolute": 1e-5,
        "gain": 1.0,
        "spread": 0.5,
        "cosine": 1.0,
    }
    return {"against": against, "dtype": dtype, "inputs": 4, "batches": [1, 2], "outputs": [known | found]}


@pytest.mark.parametrize(
    ("found", "dtype", "word"),
    [
        ({}, "float32", "ok"),
        ({"top1": 0.5}, "float32", "ok"),
        ({"cosine": 0.1}, "float32", "ok"),
        ({"rms": 1e-3}, "float32", "warn"),
        ({"largest": 1e-2}, "float32", "warn"),
        ({"gain": 1.001}, "float32", "warn"),
        ({"spread": 0.0}, "float32", "warn"),
        ({"gain": 50.0}, "float32", "fail"),
        ({"rms": 1e-2}, "float16", "ok"),
        ({"rms": 1e-1}, "float16", "warn"),
        ({"gain": 1.2}, "bfloat16", "fail"),
    ],
)
def test_agreement(found: dict[str, Any], dtype: str, word: str) -> None:
    for details in (
        {"outputs": {"against_torch": exported(**found)}},
        {"outputs_compared": exported(**found)},
    ):
        assert outcome("agreement", case(axes={"dtype": dtype}, details=details)) == word


def test_the_worse_of_two_comparisons_is_told() -> None:
    details = {
        "outputs": {"against_torch": exported()},
        "outputs_compared": exported(against="onnxruntime", gain=-1.0),
    }
    answer = check("agreement", case(details=details))
    assert answer is not None
    assert answer.outcome == "fail"
    assert "of onnxruntime: " in answer.sentence
    assert "the original" not in answer.sentence


def test_comparisons_that_say_the_same_are_told_once() -> None:
    details = {
        "outputs": {"against_torch": exported(rms=2e-6, absolute=2e-5)},
        "outputs_compared": exported(against="torch"),
    }
    answer = check("agreement", case(details=details))
    assert answer is not None
    assert "original and torch:" in answer.sentence
    assert answer.sentence.count("largest error") == 1


def test_outputs_of_another_shape_are_another_program() -> None:
    reason = {"against": "the original", "reason": "outputs differ in shape: [(1, 2)] against [(1, 3)]"}
    answer = check("agreement", case(details={"outputs": {"against_torch": reason}}))
    assert answer is not None
    assert answer.outcome == "fail"
    assert "(1, 2)" in answer.sentence


@pytest.mark.parametrize(("pending", "word"), [({"pending": True}, "fail"), ({}, None)])
def test_synchronised(pending: dict[str, bool], word: str | None) -> None:
    assert outcome("synchronised", case(details={"outputs": pending})) == word


def test_in_process() -> None:
    assert outcome("in_process", case(details={"in_process": True})) == "note"


def paced(service: Any, *, rate: float = 20.0, n: int = 200) -> Case:
    """A constant rate of calls in a line: each is served when it is due and the one before is done."""
    due, took = np.arange(n) / rate, np.broadcast_to(service, n)
    done = np.empty(n)
    for index in range(n):
        done[index] = max(due[index], done[index - 1] if index else 0.0) + took[index]
    late = done - took - due
    return case(
        Series(metric=LATENCY, regime="paced", samples=(done - due).tolist(), at=due.tolist()),
        Series(metric=LATENESS, regime="paced", samples=late.tolist()),
    )


def _exponential(mean: float, n: int) -> Any:
    return np.random.default_rng(3).exponential(mean, n)


@pytest.mark.parametrize(
    ("service", "word"),
    [
        (0.010, "ok"),
        (0.060, "warn"),
        (_exponential(0.030, 200), "ok"),  # 60 % busy: a queue forms now and then, and empties
        (_exponential(0.050, 200), "warn"),  # as many as it can serve: it may grow, or not
    ],
    ids=["half busy", "too many", "a queue in balance", "undecided"],
)
def test_late(service: Any, word: str) -> None:
    """A period is 50 ms."""
    assert outcome("late", paced(service)) == word


def test_calls_that_wait_in_line_do_not_mean_that_the_rate_is_too_high() -> None:
    """200/s of a capacity of 334/s: most calls begin behind schedule, and all are served."""
    of = paced(_exponential(0.003, 5000), rate=200.0, n=5000)
    assert outcome("late", of) == "ok"
    assert summarize(of)["throughput/paced"].value == pytest.approx(200)


def test_calls_that_cannot_be_served_have_a_throughput_and_no_latency() -> None:
    stats = summarize(paced(0.060))
    assert stats["throughput/paced"].value == pytest.approx(1 / 0.060)
    assert stats["latency/paced/p95"].value is None
    assert "grows" in stats["latency/paced/median"].note


def wish(value: float, origin: str = "preset") -> dict[str, Setting]:
    return {"precision": Setting(value=value, origin=origin)}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("spread", "plan", "word"),
    [
        (0.001, wish(0.02), "ok"),
        (0.01, wish(0.0001), "note"),
        (0.01, wish(0.0001, "flag"), "warn"),
        (0.01, wish(0.0001, "argument"), "warn"),
        (0.6, wish(0.02), "warn"),
    ],
)
def test_precision(spread: float, plan: dict[str, Setting], word: str) -> None:
    assert outcome("precision", case(timings(0.01, spread=spread, processes=1)), plan) == word


def test_precision_that_was_missed_says_why_and_asks_for_nothing_that_nobody_asked() -> None:
    wide = case(timings(0.01, spread=0.6, processes=1))
    for made, plan, words in (
        (wide, wish(0.02), "asked was ±2.0%: time was up"),
        (wide, wish(0.0), "%: time was up"),
        (structs.replace(wide, status="interrupted"), wish(0.0), "%: it was interrupted"),
    ):
        found = check("precision", made, plan)
        assert found is not None
        assert found.sentence.endswith(words)
        assert ("asked" in found.sentence) == ("asked" in words)


def test_precision_of_too_few_samples() -> None:
    found = check("precision", case(timings(0.01, n=4, processes=1)))
    assert found is not None
    assert found.outcome == "fail", "without an interval there is no number"
    assert "4 of the 6" in found.sentence
    assert "--budget" in found.next


@pytest.mark.parametrize(
    ("label", "word"),
    [(0, None), (Label.RECOMPILED, "warn"), (Label.RECOMPILED | Label.WARM_UP, None)],
)
def test_recompiled(label: int, word: str | None) -> None:
    assert outcome("recompiled", labelled(20, 0.5, Label(label))) == word


@pytest.mark.parametrize(("seconds", "word"), [(1e-7, "warn"), (5e-6, "warn"), (1e-3, None)])
def test_resolution(seconds: float, word: str | None) -> None:
    assert outcome("resolution", case(timings(seconds))) == word


def levels(*parts: tuple[int, float]) -> Case:
    dice = np.random.default_rng(1)
    samples = [float(level * dice.lognormal(0, 0.005)) for n, level in parts for _ in range(n)]
    return case(Series(metric=LATENCY, regime="isolated", samples=samples))


@pytest.mark.parametrize(
    ("of", "word", "words"),
    [
        (levels((200, 0.01)), "ok", "settled"),
        (levels((20, 0.02), (200, 0.01)), "ok", "settled"),
        (levels((60, 0.008), (600, 0.01)), "note", "slowed down"),
        (levels((60, 0.008), (500, 0.01)), "warn", "in the middle"),
        (levels((60, 0.0138), (500, 0.01)), "warn", "in the middle"),
        (levels((100, 0.01), (100, 0.013), (100, 0.01)), "warn", "wanders"),
        (labelled(50, 1.0, Label.WARM_UP), "warn", "never settled"),
    ],
)
def test_settled(of: Any, word: str, words: str) -> None:
    found = check("settled", of)
    assert found is not None
    assert found.outcome == word
    assert words in found.sentence


def test_settled_says_by_how_much_it_slowed_down() -> None:
    """From 8 ms to 10 ms is 25 % slower."""
    found = check("settled", levels((60, 0.008), (600, 0.01)))
    assert found is not None
    assert "by 25%" in found.sentence


@pytest.mark.parametrize(("label", "word"), [(Label.NONE, "note"), (Label.WAITED, None)])
def test_waits_for_itself(label: Label, word: str | None) -> None:
    latency = structs.replace(labelled(10, 1.0, label).series[0])
    waited = Series(
        metric=Metric(tag="disturbance/waited", unit="s", title="waited"),
        regime="isolated",
        samples=[0.005] * 10,
    )
    assert outcome("waits_for_itself", case(latency, waited)) == word


@pytest.mark.parametrize(("waited", "word"), [(0.020, "note"), (0.002, "warn")])
def test_excluded_samples_that_are_long_by_themselves_are_no_disturbance(waited: float, word: str) -> None:
    """Every fifth call takes 25 ms instead of 5, and waited: for all of that time, or for 2 ms of it."""
    slow = np.arange(200) % 5 == 4
    series = Series(
        metric=LATENCY,
        regime="isolated",
        samples=np.where(slow, 0.025, 0.005).tolist(),
        label=[int(Label.WAITED) if each else 0 for each in slow],
    )
    lost = Series(metric=WAITED, regime="isolated", samples=np.where(slow, waited, 0.0).tolist())
    assert outcome("disturbed", case(series, lost)) == word


def evidence(tag: str, samples: list[float], **more: Any) -> Series:
    return Series(metric=Metric(tag=tag, unit="s", title=tag), samples=samples, **more)


def held(by_block: list[float], *, calls: int = 10) -> Case:
    """Blocks of calls of 10 ms, and the memory in MiB after each."""
    at = [0.01 * number for number in range(calls * len(by_block))]
    latency = Series(metric=LATENCY, regime="isolated", samples=[0.01] * len(at), at=at)
    ends = [0.01 * calls * (number + 1) - 0.001 for number in range(len(by_block))]
    memory = evidence("evidence/process/memory", [each * 2**20 for each in by_block], at=ends)
    return structs.replace(case(latency), series=[latency, memory])


def test_memory_that_every_call_keeps_is_told_by_call() -> None:
    found = check("growth", held([100 + 80 * number for number in range(8)]))
    assert found is not None
    assert "keeps 8.00 MiB" in found.sentence
    assert "80 calls" in found.sentence


@pytest.mark.parametrize(
    "by_block",
    [
        [100, 500, 500, 500, 500, 500, 500],  # a cache that is full
        [100, 300, 400, 450, 475, 480, 481, 481],  # and one that fills slowly
        [100, 100.5, 101, 101.5, 102, 102.5],  # a trace of its own
        [100, 180, 120, 200, 110, 210],  # given back and taken again
        [100, 180, 260],
    ],
)
def test_memory_that_settles_is_no_growth(by_block: list[float]) -> None:
    assert check("growth", held(by_block)) is None


def throttled(cpu: float, *, usable: float) -> Case:
    seconds = [0.01, 0.01, 0.01, 0.01, 0.06] * 10
    latency = Series(metric=LATENCY, regime="isolated", samples=seconds)
    lost = evidence("disturbance/throttled", [s - 0.01 for s in seconds], regime="isolated")
    used = evidence("disturbance/cpu", [cpu * s for s in seconds], regime="isolated")
    made = structs.replace(case(latency), series=[latency, lost, used])
    return structs.replace(made, details=Details(usable_cpus=usable))


def test_a_quota_that_the_program_uses_up_alone_is_its_machine() -> None:
    from laptime.measure.labels import relabel

    own, shared = throttled(0.5, usable=0.5), throttled(0.2, usable=0.5)
    assert outcome("quota", own) == "note"
    assert outcome("quota", shared) is None
    labels = [relabel(each, virtual=False)[0].series[0].label for each in (own, shared)]
    assert [any(bits & int(Label.THROTTLED) for bits in each) for each in labels] == [False, True]


def test_processes_of_other_speeds_are_no_single_number() -> None:
    process = [0] * 40 + [1] * 20
    for second, word in ((0.01, None), (0.0105, None), (0.004, "warn")):
        samples = [0.01] * 40 + [second] * 20
        series = Series(metric=LATENCY, regime="isolated", samples=samples, process=process)
        assert outcome("processes", case(series)) == word


def test_calls_that_are_fast_at_times_or_short_on_many_cpus_make_one_process_doubtful() -> None:
    from laptime.measure.checks.processes import is_suspect

    def of(samples: list[float], cpus: float) -> Case:
        latency = Series(metric=LATENCY, regime="isolated", samples=samples)
        used = evidence("disturbance/cpu", [cpus * s for s in samples], regime="isolated")
        return structs.replace(case(latency), series=[latency, used])

    assert is_suspect(of([1e-3] * 100, 1.9))
    assert is_suspect(of([20e-3] * 95 + [4e-3] * 5, 1.0))
    assert not is_suspect(of([1e-3] * 100, 1.0))
    assert not is_suspect(of([20e-3] * 100, 1.9))
    assert not is_suspect(of([20e-3] * 99 + [4e-3], 1.0))
    doubtful = of([1e-3] * 100, 1.9)
    for seconds, origin, word in ((3.0, "flag", "warn"), (30.0, "flag", None), (3.0, "preset", None)):
        plan = {"budget": Setting(value=seconds, origin=origin)}  # type: ignore[arg-type]
        assert outcome("processes", doubtful, plan) == word


def test_what_the_first_call_showed_is_said() -> None:
    told: dict[str, Any] = {"changed": True, "grad": "no_grad", "grad_why": "it fails", "lazy": "generator"}
    made = structs.replace(case(), details=Details(inputs=told))
    for name in ("changed_inputs", "grad_mode", "lazy"):
        assert outcome(name, made) == "note"
    made = structs.replace(case(), details=Details(outputs=Outputs(threads=3, in_eval=0.25)))
    assert outcome("training_mode", made) == "note"
    assert outcome("threads", made) is None
    assert outcome("threads", structs.replace(made, axes={**made.axes, "threads": 1})) == "fail"
