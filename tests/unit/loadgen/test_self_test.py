"""The generator alone: it measures itself on loopback, and starts as many senders as a rate needs."""

from __future__ import annotations

import asyncio
import time

import pytest

pytest.importorskip("h11")
pytest.importorskip("aiohttp")

from msgspec import structs

from fixtures.virtual_load import constant, level
from laptime.analysis.load import level_stats
from laptime.loadgen import checks
from laptime.loadgen.loopback import self_test
from laptime.loadgen.messages import Endpoint, SelfTest
from laptime.records.case import Case
from laptime.records.details import Details
from laptime.records.load import Alone
from laptime.records.requests import Requests
from laptime.testing import http_server
from laptime.verbs.load import senders
from laptime.verbs.load.request import LoadRequest
from laptime.verbs.load.run import load

ALONE = Alone(rate=500, late=0.0001, cpu=0.1, capacity=3500)


@pytest.mark.parametrize(("kind", "chunks"), [("", 0), ("chat", 5), ("completions", 40)])
def test_every_request_is_answered_and_its_lateness_told(kind: str, chunks: int) -> None:
    endpoint = Endpoint("http://127.0.0.1:9/v1", "POST", [("x-key", "secret")], ['{"a": 1}', "{}"], kind)
    told = asyncio.run(self_test(endpoint, SelfTest(400.0, 20, chunks), time.perf_counter))
    assert len(told.late) == 20
    assert min(told.late) >= 0
    assert 0 < told.cpu <= told.wall * 1.1
    assert 0.04 < told.wall < 1


def test_what_is_sent_lasts_as_long_at_any_rate_and_has_as_many_chunks_per_second() -> None:
    slow, fast, fastest = (senders.order(rate, 0) for rate in (2, 1000, 1e6))
    assert (slow.requests, fast.requests, fastest.requests) == (100, 300, 2000)
    assert fast.rate == 1000
    streams = senders.order(100, 64)
    assert streams.chunks * streams.rate == pytest.approx(6400, rel=0.1)
    assert senders.order(2, 5).chunks == 5
    assert senders.order(300, 100_000).chunks * 100 <= senders.CHUNKS


def test_a_rate_above_what_one_sender_can_do_gets_more_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(senders, "BUSIEST", 1e-3)  # as if a sender used a thousand times the CPU
    monkeypatch.setattr(senders, "usable", lambda: [0, 1, 2])
    with http_server.serving(http_server.Script(slots=0)) as server:
        run = load(LoadRequest(target=server.url, rates=[200, 100], requests=20))
        one = load(LoadRequest(target=server.url, rates=[200], requests=20, senders=1))
    for case in run.cases:
        facts = case.details.load
        assert facts is not None
        assert facts.alone is not None
        assert (facts.senders, facts.answered) == (3, 20)
    alone = one.cases[0].details.load
    assert alone is not None
    assert alone.senders == 1


def checked(case: Case, **facts: object) -> dict[str, str]:
    """Sentences of the checks that fail, and what they advise."""
    known = case.details.load
    assert known is not None
    made = structs.replace(
        case, axes={"rate": 20}, details=Details(load=structs.replace(known, **facts), unit="request")
    )
    failed = [each for each in checks.run_all(made, level_stats(made)) if each.outcome == "fail"]
    return {each.name: f"{each.sentence} -> {each.next}" for each in failed}


def test_a_rate_that_senders_cannot_send_at_all_is_invalid_and_says_what_to_do() -> None:
    case = level(20, 30, constant(0.02), 1)
    assert checked(case, alone=ALONE) == {}
    words = checked(case, alone=structs.replace(ALONE, capacity=7))["self_test"]
    assert "10 requests/s, fewer than 20/s" in words
    assert "--rate 7" in words


def with_lateness(case: Case, seconds: list[float]) -> Case:
    assert case.requests is not None
    behind = seconds + [0.0] * (len(case.requests) - len(seconds))
    rows = [
        structs.replace(row, woken=row.due + late)
        for row, late in zip(case.requests.rows(), behind, strict=True)
    ]
    return structs.replace(case, requests=Requests.of(rows, case.requests.regime))


def test_lateness_is_told_apart_by_where_it_comes_from() -> None:
    case = with_lateness(level(20, 30, constant(0.02), 1), [0.005] * 500)
    served = checked(case, alone=ALONE)["late"]
    assert "lacks a CPU" in served
    assert "taskset" in served
    assert "busy" in checked(case, alone=structs.replace(ALONE, late=0.004))["late"]
    bound = checked(case, alone=structs.replace(ALONE, bound=True))["late"]
    assert "another program" in bound
    assert "taskset" not in bound, "that was done already"
    assert "5.0 % of a" in checked(case, alone=structs.replace(ALONE, quota=0.05))["late"]


def test_one_late_request_of_a_short_level_does_not_make_it_invalid() -> None:
    """It is more than 1 of 100, and 0.1 % of every figure."""
    case = level(10, 5, constant(0.02), 1)
    assert checked(with_lateness(case, [0.002])) == {}
    assert "mean latency" in checked(with_lateness(case, [0.015] * 10))["late"]
