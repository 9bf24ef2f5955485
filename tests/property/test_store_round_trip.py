from __future__ import annotations

import tempfile
from datetime import datetime
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from laptime.records.case import Case, Failure
from laptime.records.check import Check, Finding
from laptime.records.comparison import Comparison
from laptime.records.details import Details, EnergyUse, HostMemory, Memory, Outputs, Peak
from laptime.records.environment import Environment
from laptime.records.event import CaseAdded, Event, Measured, RunFinished, RunStarted
from laptime.records.plan import Setting
from laptime.records.run import Run
from laptime.records.series import Metric, Series
from laptime.store import files
from laptime.store.journal import Journal

words = st.text(max_size=12)
numbers = st.floats(allow_nan=False)
finite = st.floats(allow_nan=False, allow_infinity=False)
whole = st.integers(-(2**63), 2**63 - 1)
values = st.recursive(
    st.none() | st.booleans() | whole | finite | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)
metrics = st.builds(Metric, tag=words, unit=st.just("s"), title=words)


@st.composite
def serieses(draw: st.DrawFn) -> Series:
    samples = draw(st.lists(numbers, max_size=6))
    labels: st.SearchStrategy[list[int]] = st.just([]) | st.lists(
        st.integers(0, 511), min_size=len(samples), max_size=len(samples)
    )
    return Series(
        metric=draw(metrics),
        samples=samples,
        regime=draw(st.none() | words),
        label=draw(labels),
        note=draw(words),
    )


facts = st.dictionaries(words, values, max_size=2)
details = st.builds(
    Details,
    model=facts,
    count=facts,
    extra_info=facts,
    outputs=st.none() | st.builds(Outputs, finite=st.none() | st.booleans(), shape=words),
    peak=st.none() | st.builds(Peak, flops=st.none() | numbers, source=words, reason=words),
    energy=st.none() | st.builds(EnergyUse, measured=st.booleans(), why=words | facts),
    memory=st.none() | st.builds(Memory, host=st.none() | st.builds(HostMemory, peak=st.integers(0, 2**50))),
    count_failed=st.none() | st.builds(Failure, kind=words, what=words),
    in_process=st.booleans(),
    shared_process=st.integers(1, 9),
    known_work=st.none() | finite,
    unit=words,
)
cases = st.builds(
    Case,
    key=words,
    target=words,
    axes=st.dictionaries(words, words | whole | finite | st.booleans(), max_size=3),
    status=st.sampled_from(["ok", "failed", "skipped", "interrupted"]),
    failure=st.none() | st.builds(Failure, kind=words, what=words),
    series=st.lists(serieses(), max_size=2),
    checks=st.lists(
        st.builds(Check, name=words, outcome=st.sampled_from(["ok", "warn"]), sentence=words), max_size=2
    ),
    details=details,
)
environments = st.builds(
    Environment,
    host=words,
    os=words,
    python=words,
    cpu=words,
    vcpus=st.integers(1, 512),
    usable_cpus=st.floats(0, 1e6),
    memory=st.integers(0, 2**50),
    turbo=st.none() | st.booleans(),
    knobs=st.dictionaries(words, values, max_size=2),
)
comparisons = st.builds(
    Comparison,
    baseline=words,
    candidate=words,
    metric=words,
    speedup=numbers,
    ci95=st.tuples(numbers, numbers),
    word=st.sampled_from(["faster", "slower", "same", "unclear"]),
    margin=finite,
    pairs=st.integers(0, 1000),
)
runs = st.builds(
    Run,
    id=st.just("20260801-142501-337-9f3a1c"),
    started=st.datetimes().map(datetime.isoformat),
    laptime=words,
    name=words,
    status=st.sampled_from(["complete", "interrupted", "failed"]),
    seconds=finite,
    environment=environments,
    plan=st.dictionaries(words, st.builds(Setting, value=values), max_size=3),
    cases=st.lists(cases, max_size=3, unique_by=lambda case: case.key),
    findings=st.lists(
        st.builds(Finding, kind=words, sentence=words, evidence=st.dictionaries(words, values)), max_size=1
    ),
    comparisons=st.lists(comparisons, max_size=2),
)


@settings(max_examples=60, deadline=None)
@given(run=runs)
def test_run_comes_back_from_the_store_as_it_went_in(run: Run) -> None:
    with tempfile.TemporaryDirectory() as folder:
        assert files.read(files.save(run, Path(folder))) == run


@settings(max_examples=30, deadline=None)
@given(run=runs, blocks=st.lists(serieses(), min_size=1, max_size=4), cut=st.integers(0, 400))
def test_cut_journal_is_a_prefix_of_the_run_or_an_error_but_never_wrong_samples(
    run: Run, blocks: list[Series], cut: int
) -> None:
    case = Case(key="k", target="t", axes={})
    events: list[Event] = [RunStarted(run), CaseAdded(case), *(Measured("k", block) for block in blocks)]
    with tempfile.TemporaryDirectory() as folder:
        with Journal(Path(folder)) as journal:
            for event in events:
                journal(event)
        assert journal.path is not None
        data = journal.path.read_bytes()
        lines = data.split(b"\n")
        kept = max(len(data) - cut, len(lines[0]) + 1)
        journal.path.write_bytes(data[:kept])
        survived = data[:kept].count(b"\n") - 2
        read = files.read(journal.path)
        found = [s.samples for c in read.cases if c.key == "k" for s in c.series]
    expected = case
    for block in blocks[: max(0, survived)]:
        expected = expected.with_series(block)
    # A cut exactly before the line feed leaves the line whole.
    one_more = expected.with_series(blocks[survived]) if 0 <= survived < len(blocks) else expected
    assert found in ([s.samples for s in expected.series], [s.samples for s in one_more.series])


@settings(max_examples=40, deadline=None)
@given(run=runs)
def test_finishing_changes_nothing_but_status_and_seconds(run: Run) -> None:
    with tempfile.TemporaryDirectory() as folder, Journal(Path(folder)) as journal:
        journal(RunStarted(run))
        journal(RunFinished("complete", 2.5))
        assert journal.path is not None
        read = files.read(journal.path)
    assert (read.status, read.seconds) == ("complete", 2.5)
    assert read.cases == run.cases
