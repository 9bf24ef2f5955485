"""A device's peak is measured between the blocks of the cases, and takes little of their time."""

from __future__ import annotations

from typing import Any

import pytest

from laptime.analysis.achieved import FEWEST, TAG
from laptime.measure.protocol import Block, Command, Pass
from laptime.records.case import Failure
from laptime.records.plan import BenchRequest, Variant
from laptime.records.run import Run
from laptime.records.series import Label
from laptime.testing.machine import ScriptedMachine, ScriptedSession
from laptime.verbs.bench import bench
from laptime.verbs.bench.rounds import SHARE

TARGET = "null:noop"


class Heard(ScriptedMachine):
    """Remembers what its sessions were asked."""

    asked: list[Command]

    def open_session(self, variant: Variant) -> ScriptedSession:
        session = super().open_session(variant)
        self.asked = getattr(self, "asked", [])
        answer = session.ask

        def ask(command: Command, *, timeout: float) -> Any:
            self.asked.append(command)
            return answer(command, timeout=timeout)

        session.ask = ask  # type: ignore[method-assign]
        return session


def measured(machine: ScriptedMachine, **wishes: Any) -> Run:
    request = BenchRequest(**({"targets": [TARGET]} | wishes))
    return bench(request, open_session=machine.open_session, clock=machine)


def kinds(asked: list[Command]) -> str:
    """`P` for a block of the peak, `b` for one of a case, in their order; the rest is left out."""
    marks = {Block: "b", Pass: "P"}
    return "".join(marks[type(c)] for c in asked if isinstance(c, Block) or getattr(c, "kind", "") == "peak")


def test_blocks_of_the_peak_lie_between_those_of_the_case() -> None:
    machine = Heard({TARGET: 0.01}, peak=1e11, flops=1e8)
    run = measured(machine)
    order = kinds(machine.asked)
    assert order.count("P") >= FEWEST
    assert order.startswith("Pb")
    assert "PP" not in order
    blocks = run.cases[0].find(TAG)
    assert blocks is not None
    assert len(blocks.samples) == order.count("P")
    assert blocks.at == sorted(blocks.at)
    assert run.cases[0].details.peak.flops == pytest.approx(1e11, rel=0.2)


def test_the_first_call_after_it_finds_cold_caches_and_says_so() -> None:
    latency = measured(ScriptedMachine({TARGET: 0.01}, peak=1e11)).cases[0].find("latency", "isolated")
    assert latency is not None
    assert latency.label[0] & Label.RESUMED
    slow = measured(ScriptedMachine({TARGET: 0.3}, peak=1e11)).cases[0].find("latency", "isolated")
    assert slow is not None
    assert not any(bits & Label.RESUMED for bits in slow.label)


@pytest.mark.parametrize("targets", [[TARGET], [TARGET, "null:spin=1ms"]])
def test_it_takes_a_few_percent_of_a_long_measurement(targets: list[str]) -> None:
    machine = Heard({TARGET: 0.01, "null:spin=1ms": 0.01}, peak=1e11, noise=0.3)
    run = measured(machine, targets=targets, budget=60.0, precision=1e-5, processes=1)
    taken = 0.04 * kinds(machine.asked).count("P")  # seconds of a block on this machine
    assert 0.5 * SHARE < taken / 60 < 1.3 * SHARE
    assert all(case.find(TAG) is not None for case in run.cases)


def test_every_batch_of_a_variant_gets_its_peak() -> None:
    run = measured(ScriptedMachine({TARGET: 0.001}, peak=1e11), batch=[1, 2])
    first, second = (case.find(TAG) for case in run.cases)
    assert first is not None
    assert second is not None
    assert first.samples == second.samples


def test_timings_alone_have_no_peak() -> None:
    machine = Heard({TARGET: 0.01}, peak=1e11)
    measured(machine, timing_only=True)
    assert "P" not in kinds(machine.asked)


def test_a_backend_without_a_peak_is_asked_once() -> None:
    machine = Heard({TARGET: 0.01})
    run = measured(machine)
    assert kinds(machine.asked).count("P") == 1
    assert run.cases[0].find(TAG) is None


def test_a_peak_that_fails_is_told_and_costs_the_case_nothing(stage: Any) -> None:
    failure = Failure(kind="user_code", what="raised", why="not implemented for 'Half'")
    stage.fails = lambda command, session: failure if getattr(command, "kind", "") == "peak" else None
    run = bench(
        BenchRequest(targets=[TARGET], budget=0.05),
        open_session=stage.open_session,
        clock=type("Ticking", (ScriptedMachine,), {"now": lambda self: self.sleep(0.01) or self._time})({}),
    )
    assert run.cases[0].status == "ok"
    assert "'Half'" in run.cases[0].details.peak.reason
