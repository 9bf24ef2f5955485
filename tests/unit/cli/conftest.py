from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from msgspec import structs

from fixtures.command_lines import OWN_VARIABLES, carried_out
from laptime.records.event import CaseAdded, CaseChanged, Event, Progress, RunFinished, RunStarted
from laptime.records.plan import BenchRequest
from laptime.records.run import Run
from laptime.verbs import bench as verb


@dataclass
class Ended:
    """What a command line came to."""

    code: int
    out: str
    err: str


Laptime = Callable[..., Ended]


@pytest.fixture(autouse=True)
def _clean_room(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in OWN_VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def laptime(capsys: pytest.CaptureFixture[str]) -> Laptime:
    """Carries out a command line in an empty folder."""

    def call(*arguments: str) -> Ended:
        done = carried_out(capsys, *arguments)
        return Ended(done.returncode, done.stdout, done.stderr)

    return call


@dataclass
class FakeBench:
    """Stands for the verb: tells the events of a run made by hand, and remembers what it was asked."""

    run: Run
    requests: list[BenchRequest] = field(default_factory=list)

    def __call__(self, request: BenchRequest, emit: Callable[[Event], None]) -> Run:
        self.requests.append(request)
        run = structs.replace(self.run, name=request.name)
        emit(RunStarted(structs.replace(run, cases=[], status="running")))
        for number, case in enumerate(run.cases):
            emit(CaseAdded(structs.replace(case, series=[], checks=[], status="ok", failure=None)))
            emit(Progress(done=number / len(run.cases), remaining=12.0, text="measuring"))
            emit(CaseChanged(case))
        emit(RunFinished(run.status, run.seconds))
        return run


@pytest.fixture
def fake_bench(monkeypatch: pytest.MonkeyPatch) -> Callable[[Run], FakeBench]:
    """Puts a fake in place of the measurement."""

    def install(run: Run) -> FakeBench:
        fake = FakeBench(run)
        monkeypatch.setattr(verb, "bench", fake)
        return fake

    return install
