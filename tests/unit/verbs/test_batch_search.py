from __future__ import annotations

from typing import Any

import pytest

from laptime.measure.protocol import Block, Command, Load, Prepare
from laptime.records.case import Failure
from laptime.records.plan import Variant
from laptime.verbs.bench import batch_search
from laptime.verbs.bench.batch_search import CALLS, ROUNDS, BatchSizes, search

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


def ticking() -> Any:
    """Every look at this clock takes 20 s."""
    times = iter(range(0, 10_000, 20))
    return lambda: float(next(times))


def test_time_that_is_up_says_at_least(stage: Any) -> None:
    """Half of a budget is for the search."""
    result = found(stage, budget=100, now=ticking())
    (finding,) = result.findings
    assert finding.sentence.startswith(f"at least batch {result.largest} fits")
    assert "was up" in finding.sentence
    assert finding.evidence["exact"] is False
    assert "--budget 4m" in finding.next
    assert len(result.attempts) == 3


@pytest.mark.parametrize(
    ("budget", "attempts", "advice"), [(None, 4, "4m"), (300.0, 8, "10m"), (600.0, 16, "20m")]
)
def test_a_budget_is_the_searchs_too(stage: Any, budget: float | None, attempts: int, advice: str) -> None:
    """Without one a search takes 60 s; it used to take no more of five minutes."""
    stage.seconds = lambda batch: 1e-4
    result = found(stage, budget=budget, now=ticking())
    assert len(result.attempts) == attempts
    assert result.findings[0].next == f"--budget {advice}   searches on"


def test_what_the_search_leaves_of_the_budget_is_for_measuring(stage: Any) -> None:
    stage.fails = above(1)
    assert found(stage, budget=300.0, now=ticking()).seconds == pytest.approx(300 - 40)
    assert found(stage).seconds == pytest.approx(4.0)


def test_a_call_that_takes_too_long_ends_the_search(stage: Any) -> None:
    stage.seconds = lambda batch: 3.0 * batch
    result = found(stage)
    assert result.largest == 4  # whose first call took 24 s
    assert "batch 4 fits" in result.findings[0].sentence
    assert "over 20 s" in result.findings[0].sentence


@pytest.mark.parametrize("linear", [True, False])
def test_an_error_that_is_not_memory_is_told_as_what_it_is(stage: Any, linear: bool) -> None:
    stage.fails = above(3, BROKEN)
    result = found(stage, linear=linear)
    assert result.findings[0].evidence["stopped_by"] == "error"
    assert "raised ValueError" in result.findings[0].sentence
    assert "memory" not in result.findings[0].sentence
    assert "batch 4" in result.findings[0].sentence


def test_an_error_in_the_bisection_is_told_too(stage: Any) -> None:
    def fails(command: Command, session: int) -> Failure | None:
        if isinstance(command, Prepare) and command.batch > 40:
            return BROKEN if command.batch == 48 else MEMORY
        return None

    stage.fails = fails
    sentence = found(stage).findings[0].sentence
    assert "batch 32 works; batch 48" in sentence


def test_not_even_one_item_leaves_the_error_to_the_measurement(stage: Any) -> None:
    stage.fails = above(0)
    result = found(stage)
    assert (result.batches, result.findings, result.largest, result.is_limit) == ([1], [], 0, False)


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


def test_the_largest_that_fits_is_measured_whatever_number_it_is(stage: Any) -> None:
    stage.fails = above(37)
    stage.seconds = lambda batch: 1e-3
    result = found(stage)
    assert result.largest == 37
    assert result.batches == [1, 2, 4, 8, 16, 32, 37]
    assert result.is_limit
    assert result.findings[0].evidence["left_out"] == []


@pytest.mark.parametrize("noisy", [4, 8, 16, 32, 64])
def test_one_noisy_probe_does_not_end_the_curve(stage: Any, noisy: int) -> None:
    """Throughput rises to 256; a single look at one size was disturbed, as was the next one's."""
    stage.fails = above(256)
    slow = {noisy: 3.0, 2 * noisy: 3.0}
    stage.seconds = lambda batch: (0.01 + 0.0001 * batch) * slow.get(batch, 1.0)
    assert found(stage).batches == [1, 2, 4, 8, 16, 32, 64, 128, 256]


def test_what_there_is_no_time_for_is_named_with_the_budget_that_it_needs(stage: Any) -> None:
    stage.fails = above(100)
    stage.seconds = lambda batch: 0.1 * batch
    result = found(stage)
    assert result.batches == [1, 2, 4, 8]  # a call of 16 takes 1.6 s, its first one 3.2 s
    assert result.seconds == pytest.approx(ROUNDS * CALLS * 0.1 * 15)
    (finding,) = result.findings
    assert finding.evidence["left_out"] == [16]  # larger ones are far behind the best, and not asked for
    assert "time: batch 16" in finding.sentence
    minutes = int(finding.next.removeprefix("--budget ").partition("m")[0])
    more = found(stage, budget=60.0 * minutes)
    assert more.batches[:5] == [1, 2, 4, 8, 16]


def test_a_slow_first_call_is_not_called_again_and_again(stage: Any) -> None:
    stage.fails = above(1)
    stage.seconds = lambda batch: 1.5
    found(stage)
    assert not any(isinstance(command, Block) for command in stage.asked)


def test_sizes_far_behind_the_best_are_not_measured_and_a_long_search_ends_there(stage: Any) -> None:
    stage.seconds = lambda batch: max(1e-3, 2.5e-4 * batch)  # no more throughput from 4 on
    assert found(stage).batches == [1, 2, 4, 8, 16, 32, 64]
    times = iter(range(0, 10**6, 2))
    result = found(stage, now=lambda: float(next(times)))
    assert (result.largest, result.is_limit) == (64, False)
    assert "throughput rose" in result.findings[0].sentence
