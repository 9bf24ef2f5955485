"""Progress is the share of wall time that has passed, phase by phase, on scripted clocks."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from fixtures import runs
from laptime.kit.clock import SystemClock
from laptime.loadgen.messages import Level
from laptime.records.event import Event, Progress
from laptime.records.load import Level as Facts
from laptime.records.plan import BenchRequest
from laptime.store.live_run import LiveRun
from laptime.testing.machine import ScriptedMachine
from laptime.verbs.bench import bench
from laptime.verbs.bench.rounds import LOADING, WallProgress
from laptime.verbs.load.level_run import LevelRun


def told(request: BenchRequest) -> tuple[list[tuple[float, Progress]], float]:
    """What a bench tells of its progress, each with its time, and the time of its end."""
    machine = ScriptedMachine({"null:spin=10ms": 0.010, "null:spin=20ms": 0.020})
    events: list[tuple[float, Progress]] = []

    def hear(event: Event) -> None:
        if isinstance(event, Progress):
            events.append((machine.now(), event))

    bench(request, hear, open_session=machine.open_session, clock=machine)
    return events, machine.now()


@pytest.mark.parametrize("processes", [1, 3])
def test_the_share_is_that_of_wall_time_and_never_all_of_it(processes: int) -> None:
    events, end = told(
        BenchRequest(targets=["null:spin=10ms"], budget=12.0, processes=processes, precision=1e-6)
    )
    measuring = [(at, event) for at, event in events if event.text.startswith("measuring, ")] or [
        (at, event) for at, event in events if event.text == "measuring"
    ]
    assert len(measuring) > 5
    for at, event in measuring:
        assert event.done == pytest.approx(at / end, abs=0.2), (at, end)
        assert event.remaining == pytest.approx(end - at, abs=0.25 * end)
    assert all(0 <= event.done < 1 for _, event in events)
    shares = [event.done for _, event in measuring]
    assert shares == sorted(shares)


def test_phases_are_named_in_their_order() -> None:
    events, _ = told(BenchRequest(targets=["null:spin=10ms", "null:spin=20ms"], budget=4.0, processes=2))
    texts = list(dict.fromkeys(event.text for _, event in events))
    assert texts[:5] == [
        "loading null:spin=10ms",
        "loading null:spin=20ms",
        "measuring, process 1 of 2",
        "loading, process 2 of 2",
        "measuring, process 2 of 2",
    ]
    assert texts[5:8] == ["measuring outputs", "counting FLOPs", "measuring memory"]


def test_loading_counts_and_so_do_the_passes() -> None:
    now, heard = 0.0, list[Progress]()

    def hear(event: Event) -> None:
        assert isinstance(event, Progress)
        heard.append(event)

    wall = WallProgress(hear, lambda: now, variants=1)
    wall.loading(0, 1, budget=10.0)
    wall.say("loading a")
    assert heard[-1].remaining == pytest.approx(LOADING + 10.0 + 1.0)
    now = 10.0  # it loaded longer than anybody thought
    wall.end_loading([0.5])
    wall.measuring(10.0)
    assert heard[-1].done == pytest.approx(10 / (10 + 10 + 6))
    now = 20.0
    wall.measuring(0.0)
    assert heard[-1].done == pytest.approx(20 / 26)
    now = 25.0
    wall.completing("measuring energy", 5 / 6)
    assert heard[-1].done == pytest.approx(25 / 26)
    now = 400.0  # and the passes, too
    wall.completing("measuring energy", 1.0)
    assert heard[-1].done == 0.99


def test_while_nobody_knows_how_long_a_search_takes_there_is_no_share() -> None:
    now, heard = 0.0, list[Event]()
    wall = WallProgress(heard.append, lambda: now, variants=1)
    wall.searching()
    now = 30.0
    wall.say("batch 64 fits")
    rest: Any = pytest.approx(0.0, abs=10.0)
    assert heard[-1] == Progress(done=0.0, remaining=rest, text="batch 64 fits")


def level(monkeypatch: pytest.MonkeyPatch, order: Level, *, answered: int, gone: float) -> Progress:
    """What a level tells in the midst of it: a third to two thirds of the work, 40 s follow."""
    heard: list[Event] = []
    live = LiveRun("load", heard.append)
    case = runs.trusted().cases[0]
    share = (1 / 3, 2 / 3)
    run = LevelRun(live, 0.0, case, Facts(kind="closed", concurrency=1), share=share, after=40.0)
    run._answered = answered
    monkeypatch.setattr(SystemClock, "now", lambda: gone)
    run._progress(0.0, order)
    assert isinstance(heard[-1], Progress)
    return heard[-1]


def test_what_is_left_of_a_load_counts_the_levels_that_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    event = level(monkeypatch, Level(begin=0.0, end=20.0), answered=3, gone=5.0)
    assert (event.done, event.remaining) == (pytest.approx(1 / 3 + 1 / 12), pytest.approx(55.0))


def test_users_with_so_many_requests_are_counted_by_them(monkeypatch: pytest.MonkeyPatch) -> None:
    order = Level(begin=0.0, end=86400.0, users=1, requests=100)
    event = level(monkeypatch, order, answered=25, gone=5.0)
    assert (event.done, event.remaining) == (pytest.approx(1 / 3 + 1 / 12), pytest.approx(15.0 + 40.0))


def test_shares_of_a_bar_do_not_run_backwards_beyond_its_rounding() -> None:
    events, _ = told(BenchRequest(targets=["null:spin=10ms"], budget=3.0))
    shares = [event.done for _, event in events]
    assert all(after >= before - 0.02 for before, after in pairwise(shares))
