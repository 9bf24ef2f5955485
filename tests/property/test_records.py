"""Laws of records: events may be split, JSON brings everything back, labels never change samples."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from laptime.records.case import Case
from laptime.records.check import Check, trust
from laptime.records.details import Details
from laptime.records.environment import Environment, differences
from laptime.records.event import CaseAdded, Event, Measured, Progress, RunBuilder, RunStarted
from laptime.records.run import Run
from laptime.records.series import Label, Metric, Regime, Series

FINITE = st.floats(allow_nan=False, allow_infinity=False)
METRICS = [
    Metric(tag="latency", unit="s", title="Latency", better="lower"),
    Metric(tag="throughput", unit="1/s", title="Throughput", better="higher"),
    Metric(tag="memory/host/peak", unit="B", title="Peak memory"),
]
TEXT = st.text(max_size=12)


@st.composite
def all_series(draw: st.DrawFn, size: int | None = None) -> Series:
    """Any series; its optional columns are there or not."""
    samples = draw(st.lists(FINITE, min_size=size or 0, max_size=size or 12))
    n = len(samples)

    def column(values: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.one_of(st.just([]), st.lists(values, min_size=n, max_size=n)))

    return Series(
        metric=draw(st.sampled_from(METRICS)),
        samples=samples,
        regime=draw(st.sampled_from([None, *(regime.value for regime in Regime)])),
        at=column(FINITE),
        process=column(st.integers(0, 5)),
        label=column(st.integers(0, max(Label) * 2 - 1)),
        calls=column(st.integers(1, 1000)),
        round=column(st.integers(0, 9)),
        note=draw(TEXT),
    )


ENVIRONMENTS = st.builds(
    Environment,
    host=TEXT,
    os=st.sampled_from(["Linux 6.8", "Linux 6.9"]),
    python=st.just("3.12"),
    cpu=st.sampled_from(["a", "b"]),
    vcpus=st.integers(1, 4),
    usable_cpus=st.one_of(st.integers(1, 4), st.floats(0.5, 4.0)),
    memory=st.just(2**30),
    affinity=st.lists(st.integers(0, 3), max_size=2),
    governor=st.sampled_from([None, "performance"]),
    load=st.dictionaries(TEXT, FINITE, max_size=2),
    libraries=st.dictionaries(st.sampled_from(["torch", "numpy"]), st.sampled_from(["1", "2"])),
    knobs=st.dictionaries(st.sampled_from(["threads", "tf32"]), st.sampled_from([None, True, 2, 2.0])),
    packages_sha256=st.one_of(st.none(), TEXT),
)
CHECKS = st.lists(
    st.builds(Check, name=TEXT, outcome=st.sampled_from(["ok", "note", "warn", "fail"]), sentence=TEXT),
    max_size=4,
)


def fold(events: list[Event]) -> Run:
    build = RunBuilder()
    for event in events:
        build(event)
    return build.run()


def opening(environment: Environment | None = None) -> list[Event]:
    machine = environment or Environment(
        host="h", os="o", python="3", cpu="c", vcpus=1, usable_cpus=1.0, memory=1
    )
    run = Run(id="1", started="2026-01-01T00:00:00Z", laptime="0", environment=machine)
    return [RunStarted(run), CaseAdded(Case(key="k", target="t", axes={"batch": 1}))]


def cut(series: Series, first: int, last: int) -> Series:
    return msgspec.structs.replace(
        series,
        samples=series.samples[first:last],
        at=series.at[first:last],
        process=series.process[first:last],
        label=series.label[first:last],
        calls=series.calls[first:last],
        round=series.round[first:last],
    )


@given(all_series(), st.data())
def test_splitting_a_measured_event_in_two_gives_the_same_run(series: Series, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(series.samples)))
    whole = fold([*opening(), Measured("k", series)])
    parts = [cut(series, 0, at), cut(series, at, len(series.samples))]
    assert fold([*opening(), *(Measured("k", part) for part in parts)]) == whole


@given(all_series(), all_series(), all_series())
def test_joining_series_is_associative(a: Series, b: Series, c: Series) -> None:
    b, c = (msgspec.structs.replace(s, metric=a.metric, regime=a.regime) for s in (b, c))
    left, right = a.extend(b).extend(c), a.extend(b.extend(c))
    assert left.samples == right.samples == a.samples + b.samples + c.samples
    # An explicit column of neutral values and a missing one mean the same.
    for name, neutral in (("process", 0), ("label", 0), ("calls", 1), ("round", 0)):
        columns = [getattr(s, name) or [neutral] * len(s.samples) for s in (left, right)]
        assert columns[0] == columns[1], name


@given(all_series(), all_series())
def test_every_column_is_empty_or_as_long_as_the_samples(a: Series, b: Series) -> None:
    joined = a.extend(msgspec.structs.replace(b, metric=a.metric, regime=a.regime))
    for column in (joined.at, joined.process, joined.label, joined.calls, joined.round):
        assert len(column) in (0, len(joined.samples))


@given(all_series(), st.lists(st.floats(0, 1), max_size=3))
def test_progress_leaves_no_trace_in_the_run(series: Series, shares: list[float]) -> None:
    told = [Progress(share, 1.0, "x") for share in shares]
    assert fold([*opening(), *told, Measured("k", series), *told]) == fold(
        [*opening(), Measured("k", series)]
    )


@given(ENVIRONMENTS, all_series(), CHECKS, st.dictionaries(TEXT, st.integers(0, 9), max_size=3))
def test_json_brings_a_run_back(
    environment: Environment, series: Series, checks: list[Check], details: dict[str, int]
) -> None:
    run = fold([*opening(environment), Measured("k", series)])
    run = msgspec.structs.replace(
        run,
        cases=[
            msgspec.structs.replace(
                run.cases[0], checks=checks, details=Details(model=details, count=details)
            )
        ],
    )
    back = msgspec.json.decode(msgspec.json.encode(run), type=Run)
    assert back == run
    assert back.environment.fingerprint == run.environment.fingerprint


@given(st.one_of(all_series().map(lambda s: Measured("k", s)), st.just(opening()[0]), st.just(opening()[1])))
def test_json_brings_every_event_back(event: Event) -> None:
    assert msgspec.json.decode(msgspec.json.encode(event), type=Event) == event


@given(ENVIRONMENTS, ENVIRONMENTS)
def test_environments_differ_in_words_exactly_when_their_fingerprints_differ(
    a: Environment, b: Environment
) -> None:
    assert (differences(a, b) == []) == (a.fingerprint == b.fingerprint)
    assert len(differences(a, b)) == len(differences(b, a))


@given(CHECKS, CHECKS)
def test_another_check_never_makes_a_case_more_trusted(some: list[Check], more: list[Check]) -> None:
    order = ["trusted", "noisy", "invalid"]
    assert order.index(trust(some + more)) == max(order.index(trust(some)), order.index(trust(more)))
