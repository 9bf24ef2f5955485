from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from laptime.records.case import Case, case_key
from laptime.records.check import Check
from laptime.records.environment import Environment
from laptime.records.event import CaseAdded, CaseChanged, Event, Measured, Progress, RunFinished, RunStarted
from laptime.records.run import Run, Subject
from laptime.records.series import Metric, Series

LATENCY = Metric(tag="latency", unit="s", title="latency", better="lower")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / ".laptime"


@pytest.fixture
def make_run() -> Callable[..., Run]:
    """A run with nothing measured."""

    def make(run_id: str = "20260801-142501-337-9f3a1c", name: str = "", status: str = "running") -> Run:
        return Run(
            id=run_id,
            name=name,
            status=status,  # type: ignore[arg-type]
            started="2026-08-01T14:25:01Z",
            laptime="0.1.0",
            subjects=[Subject(target="null:spin=1ms")],
            environment=Environment(
                host="h", os="Linux", python="3.11", cpu="a CPU", vcpus=2, usable_cpus=2.0, memory=2**30
            ),
        )

    return make


@pytest.fixture
def make_events(make_run: Callable[..., Run]) -> Callable[..., list[Event]]:
    """The events of a run of one case with as many blocks of three samples."""

    def make(blocks: int = 2, run_id: str = "20260801-142501-337-9f3a1c") -> list[Event]:
        axes: dict[str, str | int | float | bool] = {"batch": 8}
        case = Case(key=case_key("null:spin=1ms", axes), target="null:spin=1ms", axes=axes)
        whole = case
        events: list[Event] = [RunStarted(make_run(run_id)), CaseAdded(case)]
        for block in range(blocks):
            series = Series(
                metric=LATENCY, regime="isolated", samples=[block + 0.25, block + 0.5, block + 0.75]
            )
            whole = whole.with_series(series)
            events += [Measured(case.key, series), Progress(block / blocks, 1.0, "measuring")]
        checked = [Check(name="settled", outcome="ok", sentence="settled after 1 call")]
        whole = Case(key=case.key, target=case.target, axes=axes, series=whole.series, checks=checked)
        return [*events, CaseChanged(whole), RunFinished("complete", 1.5)]

    return make
