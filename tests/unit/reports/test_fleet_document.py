"""What `laptime doctor --on` says of machines: which is slow, lost, alike, or undecided."""

from __future__ import annotations

import random
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from typing import Any

import pytest

from laptime.kit.errors import UsageError
from laptime.launch.fleet import NODE, Machine
from laptime.probes.link import SIZES
from laptime.records.case import Axis, Case, Failure
from laptime.records.requests import LATENCY
from laptime.records.run import Run
from laptime.records.series import Regime, Series
from laptime.reports.documents.fleet import document
from laptime.reports.formats import text
from laptime.verbs.doctor import fleet
from laptime.verbs.doctor.fleet import SPEEDS


def case(name: str, speed: str, time: float, **axes: Axis) -> Case:
    series = Series(metric=LATENCY, samples=[time], regime=Regime.ISOLATED)
    axes = {"machine": name, "speed": speed, "hardware": "0123456789ab", **axes}
    return Case(key=f"{name}/{speed}", target="", axes=axes, series=[series])


@pytest.fixture
def visits(monkeypatch: pytest.MonkeyPatch) -> dict[str, float | None]:
    """Seconds of a call by the name of a machine, of a MB by that of a link; 1 if it is not named. None: it
    is lost in its third visit."""
    seconds: dict[str, float | None] = {}
    dice, number = random.Random(3), dict[str, int]()

    def visit(ends: tuple[Machine, ...], fleet: fleet._Fleet) -> list[Case]:
        name = " - ".join(machine.name for machine in ends)
        number[name] = number.get(name, 0) + 1
        own = seconds.get(name, 1.0)
        if own is None and number[name] > 2:
            failure = Failure(kind="died", what=f"{ends[-1].name} was lost: was ended by SIGKILL")
            fleet.lost[ends[-1].name] = failure
        if fleet.trouble(ends):
            return []
        if len(ends) == 1:
            return [case(name, speed, (own or 1.0) * dice.gauss(1, 0.01)) for speed in SPEEDS]
        times = {size: (1.0 + size / 1e6 * (own or 1.0)) * dice.gauss(1, 0.01) for size in SIZES}
        return [case(name, f"{size} B", time, bytes=size, network="eth0") for size, time in times.items()]

    monkeypatch.setattr(fleet, "_visit", visit)
    return seconds


def examined(seconds: dict[str, float | None], turns: int = fleet.TURNS, *, links: bool = False) -> Run:
    machines = [Machine(name, ()) for name in seconds if " - " not in name]
    return fleet.examine_fleet(machines, turns=turns, links=links)


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


def test_when_no_machine_answers_each_is_named() -> None:
    run = fleet.examine_fleet([Machine(name, ("/no/such/ssh",)) for name in "ab"], links=True)
    assert "a was lost: /no/such/ssh does not start" in first_line(run)
    assert "b was lost" in first_line(run)
    assert {case.key: case.status for case in run.cases} == dict.fromkeys(["a", "b", "a - b"], "failed")


def test_a_visit_measures_what_it_names() -> None:
    seen = fleet._Fleet()
    found = fleet._visit((Machine("here", (sys.executable, *NODE)),), seen)
    assert [each.axes["speed"] for each in found] == [*SPEEDS], seen.lost
    assert all(0 < each.series[0].samples[0] < 30 for each in found)


# Links


def test_a_slow_link_is_named_by_what_is_slow_of_it(visits: dict[str, float | None]) -> None:
    visits |= {"a": 1.0, "b": 1.0, "c": 1.0, "a - c": 2.0}
    run = examined(visits, links=True)
    (finding,) = run.findings
    assert finding.sentence.startswith("slow  a - c: bandwidth at 0.50x [0.")
    assert finding.next.startswith("ethtool eth0")
    assert finding.cases[0] in [case.key for case in run.cases]
    lines = text.render(run, width=200, brief=True).splitlines()
    rows = {line.split("  ")[1]: line for line in lines if " - " in line and line.startswith("  ")}
    assert {name: row.split()[-1] for name, row in rows.items()} == {
        "a - b": "alike",
        "a - c": "slow",
        "b - c": "alike",
    }
    assert " ms   [" in rows["a - b"], "the latency has an interval"


def test_a_machine_at_one_end_of_all_slow_links_is_named(visits: dict[str, float | None]) -> None:
    visits |= {"a": 1.0, "b": 1.0, "c": 1.0, "d": 1.0} | {f"{name} - d": 2.0 for name in "abc"}
    run = examined(visits, links=True)
    assert {each.candidate for each in run.comparisons if each.word == "slower"} == {
        "a - d",
        "b - d",
        "c - d",
    }
    assert first_line(run).startswith("slow        each slow link is one of d; a - d: bandwidth at 0.50x")


def test_equal_links_are_alike_and_say_what_would_be_seen(visits: dict[str, float | None]) -> None:
    visits |= {"a": 1.0, "b": 1.0, "c": 1.0}
    run = examined(visits, links=True)
    assert first_line(run).startswith("alike")
    assert [check.name for check in run.checks] == ["machines", "links"]
    assert "no link is slower than the others of its kind" in first_line(run)


def test_one_link_is_measured_and_not_compared(visits: dict[str, float | None]) -> None:
    visits |= {"a": 1.0, "b": 1.0}
    run = examined(visits, links=True)
    assert {each.metric for each in run.comparisons} == SPEEDS.keys()
    assert [part.title for part in document(run).sections] == ["Machines", "Links"], "words to jump to"
    assert "MB/s" in text.render(run, width=200, brief=True)


def test_a_machine_that_dies_in_a_link_takes_all_of_its_links_along(visits: dict[str, float | None]) -> None:
    visits |= {"a": 1.0, "b": 1.0, "c": 1.0, "a - c": None}
    run = examined(visits, links=True)
    assert first_line(run).startswith("lost        c was lost: was ended by SIGKILL")
    assert first_line(run).count("SIGKILL") == 1
    failed = {case.axes["machine"] for case in run.cases if case.status == "failed"}
    assert failed == {"c", "a - c", "b - c"}


def test_one_machine_has_no_links() -> None:
    with pytest.raises(UsageError, match="--links needs two machines"):
        fleet.examine_fleet([Machine("a", ())], links=True)


@pytest.mark.parametrize(("places", "batches"), [("aaaa", 6), ("abcd", 3)])
def test_links_that_share_no_place_are_visited_side_by_side(
    places: str, batches: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = list(combinations([Machine(f"m{n}", (), place) for n, place in enumerate(places)], 2))
    rounds: list[list[tuple[Machine, ...]]] = []

    class Pool(ThreadPoolExecutor):
        def map(self, fn: Any, *of: Any, **options: Any) -> Any:
            rounds.append(of[0])
            return super().map(fn, *of, **options)

    monkeypatch.setattr(fleet, "ThreadPoolExecutor", Pool)
    monkeypatch.setattr(fleet, "_visit", lambda ends, fleet: [case(ends[0].name + ends[1].name, "8 B", 1.0)])
    assert len({each.key for each in fleet._visit_all(ends, fleet._Fleet())}) == len(ends)
    assert len(rounds) == batches
