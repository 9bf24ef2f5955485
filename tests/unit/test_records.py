"""The nouns: series that grow, cases that know whether to be trusted, runs that grow out of events."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from laptime.records import environment
from laptime.records.case import Case, Failure, case_key
from laptime.records.check import Check, Finding, Outcome, Trust, trust
from laptime.records.comparison import Comparison
from laptime.records.environment import Device, Environment, differences
from laptime.records.event import (
    CaseAdded,
    CaseChanged,
    ComparisonAdded,
    EnvironmentChanged,
    FindingAdded,
    Measured,
    Progress,
    RunBuilder,
    RunFinished,
    RunStarted,
)
from laptime.records.plan import Variant
from laptime.records.run import Run, Subject
from laptime.records.series import DISTURBED, EXCLUDED, Label, Metric, Series

LATENCY = Metric(tag="latency", unit="s", title="Latency", better="lower")
MACHINE = Environment(
    host="one", os="Linux 6.8", python="3.12.1", cpu="a CPU", vcpus=2, usable_cpus=2.0, memory=8 * 2**30
)


def series(*samples: float, regime: str = "isolated", **columns: list[int]) -> Series:
    return Series(
        metric=LATENCY,
        samples=list(samples),
        regime=regime,
        label=columns.get("label", []),
        calls=columns.get("calls", []),
        process=columns.get("process", []),
    )


def case(*checks: Check, key: str = "a/batch=1", status: str = "ok") -> Case:
    return Case(key=key, target="a", axes={"batch": 1}, checks=list(checks), status=status)  # type: ignore[arg-type]


def started(*cases: Case) -> Run:
    return Run(id="1", started="2026-01-01T00:00:00Z", laptime="0", environment=MACHINE, cases=list(cases))


# Series


def test_samples_are_joined_in_order() -> None:
    assert series(1.0, 2.0).extend(series(3.0)).samples == [1.0, 2.0, 3.0]


def test_columns_that_one_side_lacks_are_filled() -> None:
    joined = series(1.0, 2.0).extend(series(3.0, label=[4], calls=[10], process=[1]))
    assert (joined.label, joined.calls, joined.process) == ([0, 0, 4], [1, 1, 10], [0, 0, 1])
    joined = series(1.0, label=[4], calls=[10], process=[1]).extend(series(2.0, 3.0))
    assert (joined.label, joined.calls, joined.process) == ([4, 0, 0], [10, 1, 1], [1, 0, 0])


def test_columns_that_both_sides_lack_stay_empty() -> None:
    joined = series(1.0).extend(series(2.0))
    assert (joined.at, joined.label, joined.calls, joined.process) == ([], [], [], [])


def test_times_are_kept_only_when_all_are_known() -> None:
    known = Series(metric=LATENCY, samples=[1.0], at=[0.5])
    assert known.extend(known).at == [0.5, 0.5]
    assert known.extend(Series(metric=LATENCY, samples=[2.0])).at == []
    assert Series(metric=LATENCY, samples=[]).extend(known).at == [0.5]


def test_samples_of_another_regime_or_unit_are_not_joined() -> None:
    with pytest.raises(ValueError, match="not part"):
        series(1.0).extend(series(1.0, regime="saturated"))
    watts = Series(metric=Metric(tag="latency", unit="W", title="?"), samples=[1.0], regime="isolated")
    with pytest.raises(ValueError, match="not part"):
        series(1.0).extend(watts)


def test_joining_changes_neither_side() -> None:
    first, second = series(1.0), series(2.0)
    first.extend(second)
    assert (first.samples, second.samples) == ([1.0], [2.0])


def test_labels_have_words() -> None:
    assert (Label.WARM_UP | Label.GC).words == ["warm-up", "gc"]
    assert Label.NONE.words == []


def test_garbage_collection_is_the_programs_own_and_stays_in_the_headline() -> None:
    assert Label.GC not in EXCLUDED
    assert DISTURBED & EXCLUDED == DISTURBED
    assert Label.WARM_UP not in DISTURBED


# Cases and their trust


def test_a_case_finds_its_series_by_tag_and_regime() -> None:
    grown = case().with_series(series(1.0)).with_series(series(2.0, regime="saturated"))
    grown = grown.with_series(series(3.0))
    assert grown.find("latency", "isolated") == series(1.0, 3.0)
    assert grown.find("latency", "saturated") == series(2.0, regime="saturated")
    assert grown.find("latency") is None
    assert len(grown.series) == 2


def test_a_key_names_the_target_then_the_axes_in_order() -> None:
    axes = {"batch": 8, **Variant(target="t", threads=2, channels_last=True, compile="default").axes()}
    assert case_key("http://a/", {"rate": 5}) == "http://a/rate=5"
    assert case_key("t", axes) == (
        "t/batch=8/dtype=float32/device=cpu/threads=2/channels_last=True/compile=default"
    )


def test_axes_at_their_default_are_left_out_except_dtype_and_device() -> None:
    assert Variant(target="t").axes() == {"dtype": "float32", "device": "cpu"}
    assert Variant(target="t", backend="null").axes()["backend"] == "null"


def test_a_case_without_a_batch_axis_has_one_item_a_call() -> None:
    assert case().batch == 1
    assert Case(key="k", target="t", axes={"batch": 32}).batch == 32
    assert Case(key="k", target="t", axes={}).batch == 1


@pytest.mark.parametrize(
    ("outcomes", "word"),
    [
        ([], "trusted"),
        (["ok", "note"], "trusted"),
        (["ok", "warn"], "noisy"),
        (["warn", "fail"], "invalid"),
    ],
)
def test_the_worst_check_decides(outcomes: list[Outcome], word: Trust) -> None:
    assert trust([Check(name="c", outcome=outcome, sentence="s") for outcome in outcomes]) == word


@pytest.mark.parametrize("status", ["failed", "skipped", "interrupted"])
def test_a_case_that_did_not_finish_is_invalid_when_nothing_was_checked(status: str) -> None:
    assert case(status=status).trust == "invalid"


def test_an_interrupted_case_is_worth_what_its_checks_say() -> None:
    assert case(Check(name="c", outcome="warn", sentence="s"), status="interrupted").trust == "noisy"


def test_a_run_is_worth_its_worst_case() -> None:
    warned = case(Check(name="c", outcome="warn", sentence="s"), key="b")
    assert started(case(), warned).trust == "noisy"
    assert started(case()).trust == "trusted"
    assert started(case(), case(key="c", status="failed")).trust == "invalid"
    assert started().trust == "invalid"


def test_a_run_finds_its_cases_by_key() -> None:
    assert started(case()).case("a/batch=1") == case()
    with pytest.raises(KeyError):
        started().case("a/batch=1")


# Environments


def test_who_and_when_do_not_change_the_fingerprint() -> None:
    other = msgspec.structs.replace(
        MACHINE, host="two", load={"1min": 3.0}, git={"commit": "abc"}, packages_sha256="1"
    )
    assert other.fingerprint == MACHINE.fingerprint
    assert differences(MACHINE, other) == []


@pytest.mark.parametrize(
    ("change", "phrase"),
    [
        ({"libraries": {"torch": "2.15"}}, "torch unknown and 2.15"),
        ({"knobs": {"threads": 4}}, "threads unknown and 4"),
        (
            {"devices": [Device(name="cuda:0", model="H200", memory=2**37)]},
            "devices none and cuda:0 H200 128 GiB",
        ),
        ({"physical_cores": 8}, "physical cores unknown and 8"),
        ({"cpu_quota": 1.5}, "cpu quota unknown and 1.5"),
        ({"isa": ["avx2"]}, "isa none and avx2"),
        ({"virtual": "kvm"}, "virtual unknown and kvm"),
        ({"usable_cpus": 1.0}, "usable cpus 2.0 and 1.0"),
    ],
)
def test_what_changes_the_fingerprint_is_said_in_words(change: dict[str, object], phrase: str) -> None:
    other = msgspec.structs.replace(MACHINE, **change)
    assert other.fingerprint != MACHINE.fingerprint
    assert differences(MACHINE, other) == [phrase]


@pytest.mark.parametrize(
    "change",
    [
        {"affinity": [1]},
        {"memory": MACHINE.memory - 4096},
        {"os": "Linux 6.8.0-45-generic"},
        {"devices": [Device(name="cpu", model="a", memory=7)]},
    ],
)
def test_which_cpus_and_the_last_bytes_do_not_change_the_fingerprint(change: dict[str, object]) -> None:
    other = msgspec.structs.replace(MACHINE, **change)
    assert (other.fingerprint, differences(MACHINE, other)) == (MACHINE.fingerprint, [])


def test_of_devices_that_are_numbered_the_count_is_compared() -> None:
    def seeing(devices: str) -> str:
        return msgspec.structs.replace(MACHINE, knobs={"CUDA_VISIBLE_DEVICES": devices}).fingerprint

    assert seeing("0") == seeing("3") == seeing("GPU-8a")
    assert seeing("0,1") == seeing("2, 3") != seeing("0")


def test_hardware_is_what_stays_when_libraries_drivers_and_limits_change() -> None:
    gpu = Device(name="cuda:0", model="H200", memory=150_000_000_000, driver="570.86")
    old = msgspec.structs.replace(MACHINE, devices=[gpu])
    new = msgspec.structs.replace(
        old,
        devices=[msgspec.structs.replace(gpu, driver="580.1")],
        libraries={"torch": "9"},
        usable_cpus=1.0,
        cpu_kind="1 on 1 core",
    )
    assert old.hardware == new.hardware != MACHINE.hardware
    assert "cuda:0 driver 570.86 and 580.1" in differences(old, new)


def test_the_table_of_the_docs_has_every_field_where_it_counts() -> None:
    text = (Path(__file__).parents[2] / "docs/compare.md").read_text(encoding="utf-8")
    table = text.partition("## What a fingerprint holds")[2].partition("\n\n`Environment")[0]
    halves: dict[str, set[str]] = {}
    for row in table.splitlines():
        if row.startswith("| **"):
            halves[row.split("**")[1]] = set()
        elif row.startswith("| `"):
            halves[[*halves][-1]] |= set(re.findall(r"`(\w+)`", row.split("|")[1]))
    hardware, conditions = ({*half(MACHINE)} for half in (environment._hardware, environment._conditions))
    assert halves["hardware"] == hardware
    assert halves["conditions"] == conditions
    assert halves["neither"] == {*Environment.__struct_fields__} - hardware - conditions


def test_a_stored_environment_keeps_its_fingerprint() -> None:
    counted = msgspec.structs.replace(MACHINE, usable_cpus=2, knobs={"shape": (1, 2)})
    stored = msgspec.json.decode(msgspec.json.encode(counted), type=Environment)
    assert stored.fingerprint == counted.fingerprint
    assert differences(stored, counted) == []


# Events


def test_a_run_grows_out_of_its_events() -> None:
    build = RunBuilder()
    finding = Finding(kind="batch/knee", sentence="8")
    comparison = Comparison(
        baseline="a", candidate="b", metric="latency/isolated", speedup=1.0, ci95=(0.9, 1.1),
        word="unclear", margin=0.01, pairs=4,
    )  # fmt: skip
    moved = msgspec.structs.replace(MACHINE, libraries={"torch": "2.15"})
    for event in (
        RunStarted(started()),
        CaseAdded(case()),
        Measured("a/batch=1", series(1.0)),
        EnvironmentChanged(moved),
        Progress(0.5, 3.0, "half"),
        Measured("a/batch=1", series(2.0)),
        FindingAdded(finding),
        ComparisonAdded(comparison),
        RunFinished("complete", 4.5),
    ):
        build(event)
    run = build.run()
    assert run.case("a/batch=1").series == [series(1.0, 2.0)]
    assert (run.environment, run.findings, run.comparisons) == (moved, [finding], [comparison])
    assert (run.status, run.seconds) == ("complete", 4.5)


def test_what_was_measured_before_a_crash_is_a_run() -> None:
    build = RunBuilder()
    for event in (RunStarted(started()), CaseAdded(case()), Measured("a/batch=1", series(1.0))):
        build(event)
    assert build.run().status == "running"
    assert build.run().case("a/batch=1").series == [series(1.0)]


def test_a_changed_case_replaces_the_whole_case_in_its_place() -> None:
    build = RunBuilder()
    failed = Case(
        key="a/batch=1", target="a", axes={}, status="failed", failure=Failure(kind="died", what="it died")
    )
    for event in (RunStarted(started()), CaseAdded(case()), CaseAdded(case(key="b")), CaseChanged(failed)):
        build(event)
    assert build.run().cases == [failed, case(key="b")]
    assert build.case("a/batch=1") is failed


def test_subjects_change_only_when_told() -> None:
    build = RunBuilder()
    build(RunStarted(started()))
    build(EnvironmentChanged(MACHINE, [Subject(target="a", source="torchvision 0.29")]))
    build(EnvironmentChanged(MACHINE))
    assert build.run().subjects == [Subject(target="a", source="torchvision 0.29")]


def test_nothing_can_be_built_before_the_run_has_started() -> None:
    build = RunBuilder()
    with pytest.raises(ValueError, match="no RunStarted"):
        build.run()
    with pytest.raises(ValueError, match="no RunStarted"):
        build(RunFinished("complete", 1.0))


def test_unknown_fields_of_a_newer_laptime_are_ignored() -> None:
    text = msgspec.json.encode(started()).replace(b'"id"', b'"of_the_future":1,"id"', 1)
    assert b"of_the_future" in text
    assert msgspec.json.decode(text, type=Run) == started()
