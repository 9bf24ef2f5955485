"""Rows stay rows: what a request took, whether it kept a promise and what its tokens were belong together."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from msgspec import structs

from fixtures import runs
from fixtures.older_load import as_series
from fixtures.virtual_load import exponential, level
from laptime.analysis.load import LevelStats, level_stats, rows_of
from laptime.analysis.promises import promises
from laptime.launch.sender import _share
from laptime.loadgen.messages import Level as Order
from laptime.loadgen.promise import goodput
from laptime.records.case import Axis, Case
from laptime.records.details import Details
from laptime.records.load import AT_ONCE, Level
from laptime.records.requests import Answer, Requests
from laptime.store.schema import with_rows

SLO = "ttft=300ms@median"


def streamed(due: Sequence[float], first: Sequence[float], arrivals: str, *, mixed: int = 0) -> Case:
    """A level of a language model whose first tokens took so long, the answers 0.1 s more."""
    facts = Level(
        kind="open", arrivals=arrivals, scheduled=len(due), answered=len(due), asked=(8, 8), slo=SLO
    )
    rows = [
        Answer(n, at, at, at, at + took, at + took + 0.1, chunks=[took, took + 0.1], usage=[8, 2, 0])
        for n, (at, took) in enumerate(zip(due, first, strict=True))
    ]
    random.Random(mixed).shuffle(rows)  # as they ended, several senders told of them
    axes: dict[str, Axis] = {"arrivals": arrivals}
    return Case(
        key="x",
        target="x",
        axes=axes,
        requests=Requests.of(rows, facts.regime),
        details=Details(load=facts, unit="request"),
    )


def numbers(case: Case) -> LevelStats:
    stats = level_stats(case)
    assert stats is not None
    return stats


@pytest.mark.parametrize("stored_as", ["rows", "series"])
def test_requests_that_share_a_due_time_keep_their_promises_one_by_one(stored_as: str) -> None:
    """A trace of whole seconds, four requests at each: one of four is slow, so three of four are good."""
    due = [float(n // 4) for n in range(400)]
    case = streamed(due, [0.5 if n % 4 == 0 else 0.1 for n in range(400)], "trace", mixed=1)
    case = case if stored_as == "rows" else read_back(case)
    stats = numbers(case)
    value, low, high = goodput(promises(SLO), stats) or (0.0, 0.0, 0.0)
    assert stats.answered.value is not None
    assert value == pytest.approx(0.75 * stats.answered.value, rel=0.01)  # the first do not count
    assert 0 < low <= value <= high


@pytest.mark.parametrize("stored_as", ["rows", "series"])
def test_of_requests_that_are_all_due_at_once_the_fast_ones_are_good(stored_as: str) -> None:
    case = streamed([0.0] * 200, [0.5 if n % 10 == 0 else 0.1 for n in range(200)], AT_ONCE)
    stats = numbers(case if stored_as == "rows" else read_back(case))
    value, low, high = goodput(promises(SLO), stats) or (0.0, 0.0, 0.0)
    assert stats.answered.value is not None
    assert value == pytest.approx(0.9 * stats.answered.value, rel=1e-6)
    assert low <= value <= high


def test_two_promises_are_kept_by_the_same_request_or_not_at_all() -> None:
    """Half break one limit, the other half the other: none is good, though each limit is kept by half."""
    due = [float(n // 2) for n in range(200)]
    case = streamed(due, [0.5 if n % 2 else 0.1 for n in range(200)], "trace", mixed=2)
    assert case.requests is not None
    rows = [
        row if row.first - row.due > 0.3 else structs.replace(row, end=row.first + 1.0)
        for row in case.requests.rows()
    ]
    stats = numbers(structs.replace(case, requests=Requests.of(rows, "paced")))
    value, *_ = goodput(promises("ttft=300ms@p95,tpot=200ms@p95"), stats) or (1.0,)
    assert value == 0.0


def test_a_request_that_failed_is_a_row_and_no_good_one() -> None:
    due = [float(n // 4) for n in range(400)]
    case = streamed(due, [0.1] * 400, "trace")
    assert case.requests is not None
    rows = [
        structs.replace(row, error="http 500", first=0.0, chunks=[], usage=[]) if row.number % 8 == 0 else row
        for row in case.requests.rows()
    ]
    stats = numbers(structs.replace(case, requests=Requests.of(rows, "paced")))
    assert len(stats.requests.due) == 400
    answered = stats.answered.value
    value, *_ = goodput(promises(SLO), stats) or (0.0,)
    assert answered is not None
    assert value == pytest.approx(answered, rel=0.02)  # all that were answered
    assert sum(stats.requests.latency == float("inf")) == 50


def level_of(rows: list[Answer], facts: Level) -> Case:
    return Case(
        key="x",
        target="x",
        axes={},
        requests=Requests.of(rows, "paced"),
        details=Details(load=facts, unit="request"),
    )


def read_back(case: Case) -> Case:
    """The level as an older version stored it, and as it is read now."""
    return with_rows(runs.run(as_series(case))).cases[0]


def test_a_level_of_an_older_version_has_the_numbers_that_it_had() -> None:
    case = level(20.0, 30.0, exponential(0.02, 3), 5, slo="latency=100ms@p90")
    old = as_series(case)
    assert old.requests is None
    assert {each.metric.tag for each in old.series} >= {
        "latency",
        "load/late",
        "load/turn",
        "load/first_byte",
    }
    again = with_rows(runs.run(old)).cases[0]
    ours, theirs = numbers(case), numbers(again)
    assert theirs.latency["p90"].value == pytest.approx(ours.latency["p90"].value, abs=1e-6)
    assert theirs.turn == pytest.approx(ours.turn, abs=1e-6)
    assert [each.metric.tag for each in again.series] == ["load/answered"]


def test_tokens_of_an_older_version_stand_beside_their_requests() -> None:
    dice = random.Random(4)
    rows = []
    for n in range(60):
        due, first, made = float(n // 3), dice.uniform(0.05, 0.2), dice.choice([1, 2, 5, 9])
        gaps = [dice.uniform(0.001, 0.03) for _ in range(made - 1)]
        chunks = [round(first + sum(gaps[:k]), 6) for k in range(made)]
        end = due + chunks[-1]
        rows.append(Answer(n, due, due, due, due + chunks[0], end, chunks=chunks, usage=[7 + n, made, 0]))
    facts = Level(
        kind="open", scheduled=60, answered=60, asked=(8, 8), chunks=sum(len(r.chunks) for r in rows)
    )
    case = Case(
        key="x",
        target="x",
        axes={},
        requests=Requests.of(rows, "paced"),
        details=Details(load=facts, unit="request"),
    )
    again = read_back(case).requests
    assert again is not None
    for before, after in zip(rows, again.rows(), strict=True):
        assert (after.number, after.usage, len(after.chunks)) == (
            before.number,
            before.usage,
            len(before.chunks),
        )
        assert after.chunks == pytest.approx(before.chunks, abs=2e-6)


def test_answers_that_an_older_version_could_not_count_keep_those_that_it_could() -> None:
    rows = [
        Answer(n, float(n // 2), n // 2, n // 2, n // 2 + 0.1, n // 2 + 0.4, chunks=[0.1, 0.4], usage=usage)
        for n, usage in enumerate([[8, 4, 0], [], [9, 3, 0], [10, 2, 0], [], []])
    ]
    facts = Level(kind="open", scheduled=6, answered=6, asked=(8, 8), uncounted=3)
    case = Case(
        key="x",
        target="x",
        axes={},
        requests=Requests.of(rows, "paced"),
        details=Details(load=facts, unit="request"),
    )
    again = read_back(case).requests
    assert again is not None
    assert sorted(row.usage[:2] for row in again.rows() if row.usage) == [[8, 4], [9, 3], [10, 2]]
    assert sum(row.usage == [] for row in again.rows()) == 3


def test_rows_are_in_order_of_arrival_and_within_one_time_of_their_number() -> None:
    case = streamed([0.0, 0.0, 0.0, 1.0], [0.4, 0.3, 0.2, 0.1], "trace", mixed=3)
    assert case.requests is not None
    assert rows_of(case.requests).ttft == pytest.approx([0.4, 0.3, 0.2, 0.1])


@pytest.mark.parametrize("users", [3, 5])
def test_users_of_several_senders_have_numbers_of_their_own(users: int) -> None:
    """Else all senders would send the same prompts, and a server that remembers them looks fast."""
    order = Order(begin=0.0, end=1.0, users=users, requests=11, first=20)
    parts = [_share(order, at, 3) for at in range(3)]
    numbers = [
        number
        for part in parts
        for number in range(part.first, part.first + part.step * (part.requests or 0), part.step)
    ]
    assert len(set(numbers)) == 11
    assert min(numbers) == 20
    assert {part.sender for part in parts} == {0, 1, 2}
