"""Laws of the table of requests: any rows come back from pipe, table, journal and store as they were."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from fixtures import runs
from fixtures.older_load import as_series
from laptime.loadgen.messages import Answers, decode_message, encode
from laptime.records.case import Case
from laptime.records.details import Details
from laptime.records.event import CaseAdded, RequestsEnded, RunFinished, RunStarted
from laptime.records.load import Errors, Level
from laptime.records.requests import Answer, Requests
from laptime.store import files
from laptime.store.journal import Journal
from laptime.store.schema import with_rows

BEGAN = 1234.5
DUE = st.sampled_from([0.0, 0.5, 0.5, 1.0]) | st.floats(0, 100).map(lambda value: round(value, 3))
"""Seconds after the start: many requests share one."""
SPANS = st.floats(0, 5).map(lambda value: round(value, 6))


@st.composite
def answers(draw: st.DrawFn, number: int) -> Answer:
    due = BEGAN + draw(DUE)
    woken = due + draw(SPANS)
    sent = woken + draw(SPANS)
    error = draw(st.sampled_from(["", "", "", "http 500", "timeout"]))
    chunks = sorted(draw(st.lists(SPANS, max_size=4))) if not error else []
    first = sent + (chunks[0] if chunks else draw(SPANS))
    end = sent + chunks[-1] if chunks else first + draw(SPANS)
    usage = (
        [draw(st.integers(1, 99)), draw(st.integers(0, 9)), 0] if bool(chunks) and draw(st.booleans()) else []
    )
    return Answer(
        number,
        due,
        woken,
        sent,
        0.0 if error else first,
        end,
        error,
        status=0 if error else 200,
        size=draw(st.integers(0, 10**6)),
        chunks=chunks,
        usage=usage,
        turn=draw(st.integers(0, 2)),
        sender=draw(st.integers(0, 3)),
    )


@st.composite
def tables(draw: st.DrawFn) -> list[Answer]:
    count = draw(st.integers(1, 12))
    rows = [draw(answers(number)) for number in range(count)]
    return draw(st.permutations(rows))


@settings(max_examples=150, deadline=None)
@given(rows=tables(), parts=st.integers(1, 4))
def test_row_n_comes_back_as_row_n_from_pipe_journal_and_store(rows: list[Answer], parts: int) -> None:
    case = Case(key="k", target="t", axes={}, details=Details(load=Level(kind="open"), unit="request"))
    with tempfile.TemporaryDirectory() as folder, Journal(Path(folder)) as journal:
        journal(RunStarted(runs.run()))
        journal(CaseAdded(case))
        for part in range(parts):  # as several senders tell of them
            message = decode_message(encode(Answers(rows[part::parts])))
            if message.answers:
                journal(RequestsEnded("k", Requests.of(message.answers, "paced", BEGAN)))
        assert journal.path is not None
        so_far = files.read(journal.path).case("k").requests
        journal(RunFinished("complete", 1.0))
        at_the_end = files.read(journal.path).case("k").requests
    assert so_far == at_the_end
    assert at_the_end is not None
    assert len(at_the_end) == len(rows)
    there = {row.number: row for row in at_the_end.rows()}
    for row in rows:
        found = there[row.number]
        for name in ("due", "woken", "sent", "first", "end"):
            then = getattr(row, name)
            assert getattr(found, name) == pytest.approx(then - BEGAN if then else 0.0, abs=1e-9)
        same = {name: getattr(row, name) for name in ("due", "woken", "sent", "first", "end")}
        assert structs.replace(found, **same) == row


@settings(max_examples=100, deadline=None)
@given(rows=tables(), more=tables())
def test_tables_that_are_joined_have_the_rows_of_both(rows: list[Answer], more: list[Answer]) -> None:
    first, second = Requests.of(rows, "paced", BEGAN), Requests.of(more, "paced", BEGAN)
    assert first.extend(second).rows() == first.rows() + second.rows()
    assert Requests.of(first.rows(), "paced") == first


@settings(max_examples=100, deadline=None)
@given(rows=tables())
def test_a_level_that_an_older_version_stored_has_as_many_rows_with_the_same_times(
    rows: list[Answer],
) -> None:
    good = [row for row in rows if not row.error]
    streams = all(row.chunks for row in good)
    asked = (8, 8) if streams else None
    kinds = sorted({row.error for row in rows if row.error})
    facts = Level(kind="open", asked=asked, turns=3, errors=[Errors(kind=kind, count=1) for kind in kinds])
    table = Requests.of(rows, "paced", BEGAN)
    case = Case(key="k", target="t", axes={}, requests=table, details=Details(load=facts, unit="request"))
    again = with_rows(runs.run(as_series(case))).cases[0].requests
    assert again is not None
    assert sorted(again.number) == list(range(len(rows)))

    def seen(table: Requests) -> list[tuple[float, ...]]:
        return sorted(
            (row.due, row.end - row.due, row.woken - row.due, row.sent - row.due)
            for row in table.rows()
            if row.is_whole
        )

    assert [part for row in seen(again) for part in row] == pytest.approx(
        [part for row in seen(table) for part in row], abs=1e-6
    )
    assert sum(not row.is_whole for row in again.rows()) == len(rows) - len(good)
    if streams:
        chunks = sum(len(row.chunks) for row in good)
        assert sum(len(row.chunks) for row in again.rows()) == chunks
