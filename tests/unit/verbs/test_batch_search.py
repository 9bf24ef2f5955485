from __future__ import annotations

from typing import Any

import pytest

from laptime.kit.clock import SystemClock
from laptime.measure.protocol import Block, Command, Load, Prepare
from laptime.records.case import Failure
from laptime.records.plan import Variant
from laptime.verbs.bench import batch_search
from laptime.verbs.bench.batch_search import BatchSizes, search

MEMORY = Failure(kind="out_of_memory", what="no memory left")
KILLED = Failure(kind="died", what="the process that ran it was ended by SIGKILL")
BROKEN = Failure(kind="user_code", what="the model raised ValueError")


def above(limit: int, failure: Failure = MEMORY) -> Any:
    def fails(command: Command, session: int) -> Failure | None:
        return failure if isinstance(command, Prepare) and command.batch > limit else None

    return fails


def found(stage: Any, **more: Any) -> BatchSizes:
    return search(Variant(target="null:noop", backend="null"), open_session=stage.open_session, **more)


@pytest.fixture(autouse=True)
def _a_gigabyte(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_search, "available_bytes", lambda: 10**9)


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 7, 16, 17, 100, 127, 1000, 1023, 5000])
@pytest.mark.parametrize("failure", [MEMORY, KILLED])
def test_doubling_and_bisection_find_the_largest_batch(stage: Any, limit: int, failure: Failure) -> None:
    stage.fails = above(limit, failure)
    stage.seconds = lambda batch: 1e-5 * batch
    result = found(stage)
    assert 0.95 * limit <= result.largest <= limit
    if limit <= 20:
        assert result.largest == limit
    (finding,) = result.findings
    assert finding.kind == "batch/largest"
    smallest_failing = finding.evidence["smallest_failing"]
    assert limit < smallest_failing <= max(limit + 1, 1.06 * limit)
    assert finding.evidence["exact"] == (smallest_failing == result.largest + 1)
    assert f"batch {result.largest} fits, batch {smallest_failing} runs out of memory" in finding.sentence
    assert all(session.closed for session in stage.sessions)


@pytest.mark.parametrize("limit", [1, 2, 5, 12])
def test_linear_search_finds_the_exact_limit(stage: Any, limit: int) -> None:
    stage.fails = above(limit)
    result = found(stage, linear=True)
    assert result.largest == limit
    assert [probe.batch for probe in result.attempts] == list(range(1, limit + 2))


def test_no_batch_is_tried_after_the_search_has_ended(stage: Any) -> None:
    stage.fails = above(100)
    batches = [probe.batch for probe in found(stage).attempts]
    assert batches[:8] == [1, 2, 4, 8, 16, 32, 64, 128]
    assert len(batches) <= 8 + 5
    assert len(set(batches)) == len(batches)


def test_time_that_is_up_says_at_least(stage: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter(range(0, 1000, 20))
    clock = type("Clock", (SystemClock,), {"now": staticmethod(lambda: float(next(times)))})
    monkeypatch.setattr(batch_search, "SystemClock", clock)
    result = found(stage, budget=50)
    (finding,) = result.findings
    assert finding.sentence.startswith(f"at least batch {result.largest} fits")
    assert "the search stopped when its time was up" in finding.sentence
    assert finding.evidence["exact"] is False
    assert finding.next
    assert len(result.attempts) == 3


def test_a_call_that_takes_too_long_ends_the_search(stage: Any) -> None:
    stage.seconds = lambda batch: 3.0 * batch
    result = found(stage)
    assert result.largest == 4  # whose first call took 24 s
    assert result.findings[0].sentence.startswith("at least batch 4 fits")
    assert "one call takes over 20 s there" in result.findings[0].sentence


@pytest.mark.parametrize("linear", [True, False])
def test_an_error_that_is_not_memory_is_told_as_what_it_is(stage: Any, linear: bool) -> None:
    stage.fails = above(3, BROKEN)
    result = found(stage, linear=linear)
    assert result.findings[0].evidence["stopped_by"] == "error"
    assert "the model raised ValueError" in result.findings[0].sentence
    assert "memory" not in result.findings[0].sentence
    assert "batch 4 fails" in result.findings[0].sentence


def test_an_error_in_the_bisection_is_told_too(stage: Any) -> None:
    def fails(command: Command, session: int) -> Failure | None:
        if isinstance(command, Prepare) and command.batch > 40:
            return BROKEN if command.batch == 48 else MEMORY
        return None

    stage.fails = fails
    sentence = found(stage).findings[0].sentence
    assert "batch 32 works; batch 48 fails: the model raised ValueError" in sentence


def test_not_even_one_item_leaves_the_error_to_the_measurement(stage: Any) -> None:
    stage.fails = above(0)
    assert found(stage) == BatchSizes([1], [], 0, found(stage).attempts)


def test_every_probe_near_the_limit_has_a_worker_and_a_memory_limit_of_its_own(stage: Any) -> None:
    stage.fails = above(300)
    stage.memory = lambda batch: 3e6 * batch
    found(stage)
    loads = [command for command in stage.asked if isinstance(command, Load)]
    assert all(load.memory_limit == 900_000_000 for load in loads)
    tried = [
        [command.batch for command in session.asked if isinstance(command, Prepare)]
        for session in stage.sessions
    ]
    assert tried[0] == [1, 2, 4, 8, 16, 32, 64]  # 128 would need more than a quarter of what is free
    assert all(len(batches) == 1 for batches in tried[1:])


def test_batches_worth_measuring_end_where_throughput_stops_growing(stage: Any) -> None:
    """Throughput grows to batch 8 and is flat from there: two doublings more show that it is."""
    stage.fails = above(1000)
    stage.seconds = lambda batch: max(0.008, 0.001 * batch)
    assert found(stage).batches == [1, 2, 4, 8, 16, 32]


def test_a_slow_first_call_is_not_called_again_and_again(stage: Any) -> None:
    stage.fails = above(1)
    stage.seconds = lambda batch: 1.5
    found(stage)
    assert not any(isinstance(command, Block) for command in stage.asked)
