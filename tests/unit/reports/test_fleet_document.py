"""What `laptime doctor --on` says of machines: which is slow, lost, alike, or undecided."""

from __future__ import annotations

import random
import sys
import threading

import pytest

from laptime.launch.fleet import NODE, Machine
from laptime.records.run import Run
from laptime.reports.formats import text
from laptime.verbs.doctor import fleet


@pytest.fixture
def visits(monkeypatch: pytest.MonkeyPatch) -> dict[str, float | None]:
    """Seconds of a call by the name of a machine; None: it is lost in its third visit."""
    seconds: dict[str, float | None] = {}
    dice, number = random.Random(3), dict[str, int]()

    def visit(machine: Machine, environments: dict[str, object], stop: object) -> dict[str, float] | str:
        from laptime.probes.machine import environment

        environments.setdefault(machine.name, environment())
        number[machine.name] = number.get(machine.name, 0) + 1
        own = seconds[machine.name]
        if own is None and number[machine.name] > 2:
            return "was ended by SIGKILL"
        return {speed: (own or 1.0) * dice.gauss(1, 0.01) for speed in fleet.SPEEDS}

    monkeypatch.setattr(fleet, "_visit", visit)
    return seconds


def examined(seconds: dict[str, float | None], turns: int = fleet.TURNS) -> Run:
    return fleet.examine_fleet([Machine(name, ()) for name in seconds], turns=turns)


def first_line(run: Run) -> str:
    return text.render(run, width=200, brief=True).splitlines()[0]


def test_a_slow_machine_is_named_with_its_interval(visits: dict[str, float | None]) -> None:
    visits |= {"a": 1.0, "b": 1.12, "c": 1.0}
    run = examined(visits)
    assert "compute at 0.89x [0.8" in first_line(run)
    assert "a:" not in first_line(run)
    assert [each.kind for each in run.findings] == [fleet.SLOW] * 2


def test_the_others_are_alike_beside_a_slow_one(visits: dict[str, float | None]) -> None:
    visits |= {"a": 1.0, "b": 1.3, "c": 1.0, "d": 1.0}
    run = examined(visits)
    words = [line.split()[-1] for line in text.render(run, width=200, brief=True).splitlines()[2:6]]
    assert words == ["alike", "slow", "alike", "alike"]
    assert run.checks[0].sentence.startswith("no other machine is slower")


def test_equal_machines_are_alike_and_say_what_would_be_seen(visits: dict[str, float | None]) -> None:
    visits |= {"a": 1.0, "b": 1.0, "c": 1.0}
    assert "no machine" in first_line(examined(visits))


def test_few_visits_that_scatter_decide_nothing(visits: dict[str, float | None]) -> None:
    visits |= {"a": 1.0, "b": 1.0}
    run = examined(visits, turns=2)
    assert not run.comparisons, "two visits have no interval"
    assert first_line(run).startswith("not compared")


def test_visits_that_scatter_are_noisy(
    visits: dict[str, float | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    visits |= {"a": 1.0, "b": 1.0, "c": 1.0}
    monkeypatch.setattr(fleet, "WIDE", 0.0)
    run = examined(visits)
    assert run.trust == "noisy"
    assert first_line(run).startswith(
        "undecided   none was shown to be slow, but 8 visits each scatter: one may be, by "
    )


def test_a_lost_machine_keeps_its_visits_and_is_named(visits: dict[str, float | None]) -> None:
    visits |= {"a": 1.0, "b": None, "c": 1.0}
    run = examined(visits)
    assert all(word in first_line(run) for word in ("b was lost", "SIGKILL"))
    lost = [case for case in run.cases if case.axes["machine"] == "b"]
    assert all(case.status == "failed" and len(case.series[0].samples) == 2 for case in lost)
    assert {each.candidate for each in run.comparisons} == {"a", "c"}


def test_when_no_machine_answers_each_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet, "_visit", lambda machine, *_: "ssh: Could not resolve hostname")
    assert "ssh: Could" in first_line(examined({"a": None, "b": None}))


def test_a_visit_measures_what_it_names() -> None:
    found = fleet._visit(Machine("here", (sys.executable, *NODE)), {}, threading.Event())
    assert isinstance(found, dict), found
    assert found.keys() == fleet.SPEEDS.keys()
    assert all(0 < seconds < 30 for seconds in found.values())
