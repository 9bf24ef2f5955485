"""A worker played by a script: what each command does is decided by the test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from fixtures.runs import environment
from laptime.launch.worker import CommandFailed
from laptime.measure.metrics import LATENCY
from laptime.measure.protocol import (
    Block,
    Command,
    Facts,
    Load,
    Loaded,
    Message,
    Pass,
    Prepare,
    Prepared,
    Samples,
)
from laptime.probes import machine as probe
from laptime.records.case import Failure
from laptime.records.environment import Device
from laptime.records.plan import Variant
from laptime.records.series import Metric, Series

INCREASE = Metric(tag="memory/host/increase", unit="B", title="added")


@dataclass
class Stage:
    """Opens scripted sessions and remembers them.

    Attributes:
        fails: what a command comes to: a failure, or None when it is answered.
        seconds: of one call, by batch size.
        memory: bytes that a call adds, by batch size.
    """

    fails: Callable[[Command, int], Failure | None] = lambda command, session: None
    seconds: Callable[[int], float] = lambda batch: 0.001 * batch
    memory: Callable[[int], float] = lambda batch: 1e6 * batch
    sessions: list[Scripted] = field(default_factory=list)

    def open_session(self, variant: Variant) -> Scripted:
        self.sessions.append(Scripted(self, len(self.sessions)))
        return self.sessions[-1]

    @property
    def asked(self) -> list[Command]:
        return [command for session in self.sessions for command in session.asked]


class Scripted:
    """One worker; a failure of kind died or hung ends it."""

    def __init__(self, stage: Stage, number: int) -> None:
        self._stage = stage
        self._number = number
        self.alive = True
        self.closed = False
        self.asked: list[Command] = []

    def ask(self, command: Command, *, timeout: float) -> list[Message]:
        self.asked.append(command)
        if not self.alive:
            raise CommandFailed(Failure(kind="died", what="asked a dead worker"))
        failure = self._stage.fails(command, self._number)
        if failure is not None:
            self.alive = failure.kind not in ("died", "hung")
            raise CommandFailed(failure)
        match command:
            case Load():
                return [Loaded(imported=1.0, loaded=0.5, pid=1, devices=[Device(name="cpu", model="CPU")])]
            case Prepare(batch):
                return [Prepared(batch=batch, first_call=2 * self._stage.seconds(batch))]
            case Block(batch, regime):
                series = Series(metric=LATENCY, regime=regime, samples=[self._stage.seconds(batch)] * 8)
                return [Samples(batch=batch, series=[series])]
            case Pass("memory", batch):
                added = Series(metric=INCREASE, samples=[self._stage.memory(batch)])
                return [Facts(batch=batch, series=[added])]
            case Pass(_, batch):
                return [Facts(batch=batch)]
            case _:
                return []

    def close(self) -> None:
        self.alive = False
        self.closed = True


@pytest.fixture
def stage() -> Stage:
    """Workers that do as they are told until a test says otherwise."""
    return Stage()


@pytest.fixture(autouse=True)
def _known_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "environment", environment)
