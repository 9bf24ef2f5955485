"""What blocks of load say: held against queues whose latencies are a closed form."""

from __future__ import annotations

import math

import pytest
from msgspec import structs

from fixtures.virtual_load import constant, exponential, level
from laptime.records.case import Case
from laptime.records.requests import Requests
from laptime.tuning.gates.invariants import word
from laptime.tuning.search.evaluator import TrialFailed
from laptime.tuning.server.outputs import figure, limits, pool, rate

P90 = math.log(10) / 25
"""Of an M/M/1 queue with 50/s of service and 25/s of arrivals: latencies are exponential with 25/s."""


def blocks(count: int, seed: int, seconds: float = 10.0, arrivals: float = 25.0) -> list[Case]:
    """Blocks one after another, each with arrivals and services of its own."""
    made = []
    for at in range(count):
        case = level(arrivals, seconds, exponential(0.02, 1000 * seed + at), 100 * seed + at)
        assert case.requests is not None
        began = min(case.requests.due) - 2 * seconds * at
        rows = Requests.of(case.requests.rows(), case.requests.regime, began)
        made.append(structs.replace(case, requests=rows))
    return made


def said(limit: float, cases: list[Case]) -> str:
    return word(limits(f"latency={limit * 1e3:.3f}ms@p90", cases))


def test_the_figure_is_the_mean_latency() -> None:
    case = level(10.0, 20.0, constant(0.02), 1)
    latencies = case.find("latency", "paced")
    assert latencies is not None
    assert figure(case, "latency") == pytest.approx(sum(latencies.samples) / len(latencies.samples))
    assert rate(case) == pytest.approx(10.0, rel=0.1)
    assert figure(case, "throughput") == pytest.approx(1 / rate(case))


def test_a_queue_that_grows_has_a_figure_and_breaks_every_promise() -> None:
    growing = level(80.0, 10.0, constant(0.02), 1)
    assert figure(growing, "latency") > 1.0
    checks = limits("latency=1h@p90", [growing, growing])
    assert [check.outcome for check in checks] == ["broken"]
    assert "2 of 2 blocks" in checks[0].sentence


def test_a_promise_is_judged_on_all_requests_together() -> None:
    cases = blocks(4, 1)
    assert len(pool(cases).find("latency", "paced").samples) == sum(
        len(case.find("latency", "paced").samples) for case in cases
    )
    assert said(4 * P90, cases) == "kept"
    assert said(0.25 * P90, cases) == "broken"
    assert said(P90, cases) == "undecided"
    assert limits("", cases) == []


def test_too_few_requests_decide_nothing() -> None:
    assert said(1.1 * P90, blocks(1, 2, seconds=1.0)) == "undecided"


def test_a_promise_that_is_broken_is_hardly_ever_called_kept() -> None:
    """The true p90 lies 1 % above the promise: at most 5 % of sessions say kept."""
    wrong = [said(P90 / 1.01, blocks(2, seed)) == "kept" for seed in range(40)]
    assert sum(wrong) <= 2


def test_a_block_without_tokens_has_no_time_to_the_first() -> None:
    with pytest.raises(TrialFailed, match="first token"):
        figure(level(10.0, 5.0, constant(0.02), 1), "ttft")
