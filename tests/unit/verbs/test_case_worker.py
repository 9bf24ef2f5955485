from __future__ import annotations

from typing import Any

import pytest

from fixtures.runs import environment
from laptime.measure.protocol import Block, Command, Load, Prepare
from laptime.records.case import Failure
from laptime.records.event import RunBuilder, RunStarted
from laptime.records.plan import BenchRequest, Variant
from laptime.records.run import Run
from laptime.records.series import Regime
from laptime.testing.machine import ScriptedMachine
from laptime.verbs.bench import bench
from laptime.verbs.bench.case_worker import CaseWorker

DIED = Failure(kind="died", what="ended by SIGSEGV")
RAISED = Failure(kind="user_code", what="raised")
HUNG = Failure(kind="hung", what="no answer")


def when(kind: type[Prepare | Block], batch: int, failure: Failure) -> Any:
    def fails(command: Any, session: int) -> Failure | None:
        return failure if isinstance(command, kind) and command.batch == batch else None

    return fails


def run(stage: Any, **more: Any) -> Run:
    wishes: dict[str, Any] = {"batch": [1, 2, 4], "budget": 0.2} | more
    targets = wishes.pop("targets", ["null:noop"])
    machine = ScriptedMachine({})
    return bench(
        BenchRequest(targets=targets, **wishes), open_session=stage.open_session, clock=_Ticking(machine)
    )


class _Ticking:
    """A clock that moves by 10 ms at every look, so that budgets end."""

    def __init__(self, machine: ScriptedMachine) -> None:
        self._machine = machine

    def now(self) -> float:
        self._machine.sleep(0.01)
        return self._machine.now()

    cpu = now

    def sleep(self, seconds: float) -> None:
        self._machine.sleep(seconds)


@pytest.mark.parametrize("command", [Prepare, Block])
@pytest.mark.parametrize("failure", [DIED, RAISED, HUNG])
@pytest.mark.parametrize("bad", [1, 2, 4])
def test_a_failing_batch_does_not_cost_the_others_their_numbers(
    stage: Any,
    command: type[Prepare | Block],
    failure: Failure,
    bad: int,
) -> None:
    stage.fails = when(command, bad, failure)
    found = run(stage)
    assert [case.batch for case in found.cases] == [1, 2, 4]
    for case in found.cases:
        if case.batch == bad:
            assert case.status == "failed"
            assert case.failure == failure
            assert case.trust == "invalid"
        else:
            assert case.status == "ok", case.failure
            series = case.find("latency", "isolated")
            assert series is not None
            assert len(series.samples) >= 16
            assert case.find("time/first_call") is not None
    assert all(session.closed for session in stage.sessions)


def test_every_worker_is_loaded_under_a_memory_limit(stage: Any) -> None:
    stage.fails = when(Prepare, 2, DIED)
    run(stage, batch=[1, 2, 4, 8, 16])
    loads = [command for command in stage.asked if isinstance(command, Load)]
    assert len(loads) == 2  # the one that died and the one in its place
    assert all(load.memory_limit for load in loads)


def test_few_batch_sizes_get_processes_of_their_own_and_many_share_one(stage: Any) -> None:
    found = run(stage)
    assert len(stage.sessions) == 3
    assert not any(case.details.shared_process > 1 for case in found.cases)
    stage.sessions.clear()
    found = run(stage, batch=[1, 2, 4, 8, 16])
    assert len(stage.sessions) == 1
    checks = {check.name: check for case in found.cases for check in case.checks}
    assert checks["shared_process"].outcome == "note"
    assert "--batch" in checks["shared_process"].next


def test_what_was_measured_before_a_failure_is_kept(stage: Any) -> None:
    blocks = 0

    def fails(command: Command, session: int) -> Failure | None:
        nonlocal blocks
        blocks += isinstance(command, Block)
        return DIED if isinstance(command, Block) and blocks == 3 else None

    stage.fails = fails
    (case,) = run(stage, batch=[1]).cases
    assert case.status == "failed"
    series = case.find("latency", "isolated")
    assert series is not None
    assert len(series.samples) == 16  # of two blocks


def test_a_target_that_does_not_load_fails_all_its_cases_and_no_other(stage: Any) -> None:
    stage.fails = lambda command, session: (
        RAISED if isinstance(command, Load) and command.variant.target == "null:nan" else None
    )
    found = run(stage, targets=["null:nan", "null:noop"], batch=[1, 2], processes=2)
    assert [case.status for case in found.cases] == ["failed", "failed", "ok", "ok"]


def test_a_target_that_does_not_load_is_loaded_once(stage: Any) -> None:
    """With three processes, a hanging load would otherwise wait three times for its timeout."""
    stage.fails = lambda command, session: (
        HUNG if isinstance(command, Load) and command.variant.target == "null:nan" else None
    )
    run(stage, targets=["null:nan", "null:noop"], batch=[1], processes=3)
    loads = [c.variant.target for c in stage.asked if isinstance(c, Load)]
    assert loads.count("null:nan") == 1
    assert loads.count("null:noop") == 3


def test_nothing_is_started_again_when_everything_has_failed(stage: Any) -> None:
    stage.fails = lambda command, session: RAISED if isinstance(command, Load) else None
    found = run(stage, processes=3, batch=[1, 2, 4, 8, 16])
    assert len(stage.sessions) == 1
    assert found.trust == "invalid"


def test_a_failing_pass_is_a_detail_and_no_end(stage: Any) -> None:
    stage.fails = lambda command, session: RAISED if getattr(command, "kind", "") == "memory" else None
    (case,) = run(stage, batch=[1]).cases
    assert case.status == "ok"
    assert case.details.memory_failed is not None
    assert case.details.memory_failed.what == "raised"


def test_ctrl_c_closes_every_worker_and_keeps_the_cases(stage: Any) -> None:
    blocks = 0

    def fails(command: Command, session: int) -> None:
        nonlocal blocks
        blocks += isinstance(command, Block)
        if blocks == 5:
            raise KeyboardInterrupt

    stage.fails = fails
    found = run(stage, targets=["null:noop", "null:nan"])
    assert found.status == "interrupted"
    assert all(session.closed for session in stage.sessions)
    assert {case.status for case in found.cases} == {"interrupted"}
    assert sum(len(series.samples) for case in found.cases for series in case.series) > 20


def worker_of(stage: Any) -> tuple[CaseWorker, RunBuilder]:
    builder = RunBuilder()
    builder(RunStarted(Run(id="x", started="", laptime="", environment=environment())))
    variant = Variant(target="null:noop", backend="null")
    return CaseWorker(variant, [1], emit=builder, timeout=9.0, open_session=stage.open_session), builder


def measure(worker: CaseWorker, regime: str, **more: Any) -> None:
    wishes = {"seconds": 0.1, "resumed": False, "round": 1, "epoch": 0.0} | more
    worker.measure(1, regime=Regime(regime), **wishes)


def test_waiting_in_line_does_not_change_the_estimate_of_a_call(stage: Any) -> None:
    worker, _ = worker_of(stage)
    worker.start()
    worker.open()
    worker.prepare()
    measure(worker, "isolated")
    stage.seconds = lambda batch: 5.0
    measure(worker, "paced", rate=100.0)
    assert worker.estimate[1] == 0.001


def test_samples_know_their_process_and_their_round(stage: Any) -> None:
    worker, builder = worker_of(stage)
    for generation in range(2):
        worker.start()
        worker.open()
        worker.prepare()
        measure(worker, "isolated", round=generation + 5, resumed=generation == 1)
    series = builder.run().cases[0].find("latency", "isolated")
    assert series is not None
    assert series.process == [0] * 8 + [1] * 8
    assert series.round == [5] * 8 + [6] * 8
    assert series.label[8] != 0
    assert not any(series.label[:8] + series.label[9:])
    assert all(session.closed for session in stage.sessions[:-1])


def test_a_call_that_outlasts_its_block_is_made_once(stage: Any) -> None:
    stage.seconds = lambda batch: 3.0
    worker, _ = worker_of(stage)
    worker.start()
    worker.open()
    worker.prepare()
    measure(worker, "isolated")
    measure(worker, "isolated", resumed=True)
    blocks = [command for command in stage.asked if isinstance(command, Block)]
    assert [(block.min_calls, block.max_calls) for block in blocks] == [(1, 1), (2, 2)]


def test_a_block_of_short_calls_keeps_no_more_samples_than_tell(stage: Any) -> None:
    stage.seconds = lambda batch: 10e-6
    worker, _ = worker_of(stage)
    worker.start()
    worker.open()
    worker.prepare()
    for regime in ("isolated", "saturated"):
        measure(worker, regime)
    blocks = [command for command in stage.asked if isinstance(command, Block)]
    assert [block.max_calls for block in blocks] == [20_000, 100_000]
