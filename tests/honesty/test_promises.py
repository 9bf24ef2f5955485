"""The promises of the README, kept on a machine whose truth is known."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import pytest
from msgspec import structs

from fixtures.runs import environment
from laptime.analysis.summary import headline, summarize
from laptime.measure.labels import relabel
from laptime.probes import machine as probe
from laptime.records.comparison import Comparison
from laptime.records.plan import BenchRequest
from laptime.records.run import Run
from laptime.records.series import Label
from laptime.testing.machine import ScriptedMachine
from laptime.verbs.bench import bench

CONDITIONS: dict[str, dict[str, float]] = {
    "quiet": {},
    "neighbour": {"neighbour": 0.5},
    "drift": {"drift": 0.15},
    "between": {"between": 0.006},
}
"""What disturbs the scripted machine; `quiet` drifts and scatters, too, as the best of machines do."""


@pytest.fixture(autouse=True)
def _known_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "environment", environment)


def race(seed: int, condition: str, *, slowdown: float = 0.0, call: float = 0.010) -> Comparison:
    """Two programs side by side; the first, the baseline, takes `1 + slowdown` times as long."""
    speeds = {"null:noop": call * (1 + slowdown), "null:spin=1ms": call}
    machine = ScriptedMachine(speeds, seed=seed, **CONDITIONS[condition])  # type: ignore[arg-type]
    request = BenchRequest(targets=["null:spin=1ms", "null:noop"])
    run = bench(request, open_session=machine.open_session, clock=machine)
    (found,) = run.comparisons
    return found


class Score(NamedTuple):
    """How many races ended in which word, and how many intervals held the truth."""

    words: Counter[str]
    covered: int


def score(condition: str, *, seeds: range, slowdown: float = 0.0, call: float = 0.010) -> Score:
    found = [race(seed, condition, slowdown=slowdown, call=call) for seed in seeds]
    truth = 1 / (1 + slowdown)
    covered = sum(each.ci95[0] <= truth <= each.ci95[1] for each in found)
    return Score(Counter(each.word for each in found), covered)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_program_is_neither_faster_nor_slower_than_itself(condition: str) -> None:
    found = score(condition, seeds=range(30), call=0.06)
    assert found.words["faster"] + found.words["slower"] == 0, found
    assert found.covered >= 26, found


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_slowdown_of_five_percent_is_found(condition: str) -> None:
    found = score(condition, seeds=range(100, 130), slowdown=0.05, call=0.06)
    assert found.words["slower"] >= 28, found
    assert found.words["faster"] + found.words["same"] == 0, found
    assert found.covered >= 26, found


@pytest.mark.slow
@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_program_differs_from_itself_in_at_most_1_of_100(condition: str) -> None:
    found = score(condition, seeds=range(1000, 1150))
    assert found.words["faster"] + found.words["slower"] <= 1, found
    assert found.covered >= 135, found


@pytest.mark.slow
@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_slowdown_of_five_percent_is_found_in_at_least_95_of_100(condition: str) -> None:
    found = score(condition, seeds=range(2000, 2100), slowdown=0.05)
    assert found.words["slower"] >= 95, found
    assert found.words["faster"] + found.words["same"] == 0, found
    assert found.covered >= 90, found


@pytest.mark.slow
def test_same_is_said_of_equals_and_never_of_what_differs_by_two_percent() -> None:
    equal = [race(seed, "quiet") for seed in range(60)]
    assert sum(each.word == "same" for each in equal) >= 10
    different = [race(seed, "quiet", slowdown=0.02) for seed in range(60)]
    assert sum(each.word == "same" for each in different) == 0


# One case alone.


def alone(seed: int, *, call: float = 0.010, processes: int | None = None, **conditions: float) -> Run:
    machine = ScriptedMachine({"null:noop": call}, seed=seed, **conditions)  # type: ignore[arg-type]
    request = BenchRequest(targets=["null:noop"], processes=processes)
    return bench(request, open_session=machine.open_session, clock=machine)


def _holds(run: Run, truth: float) -> bool:
    """Within 3 % of the truth, or said to be noisy with an interval around it."""
    stat = headline(run.cases[0])
    assert stat is not None
    assert stat.value is not None
    near = abs(stat.value / truth - 1) <= 0.03
    around = stat.ci95 is not None and stat.ci95[0] <= truth <= stat.ci95[1]
    return near or (run.trust == "noisy" and around)


@pytest.mark.parametrize("neighbour", [0.0, 0.25, 0.5])
def test_headline_survives_a_neighbour(neighbour: float) -> None:
    """No drift here: where the machine itself runs at another speed, that speed is the truth of the hour."""
    runs = [alone(seed, neighbour=neighbour, drift=0.0) for seed in range(60)]
    assert sum(_holds(run, 0.010) for run in runs) >= 57


def test_interval_of_a_lone_quiet_program_covers_the_truth() -> None:
    covered = 0
    for seed in range(100):
        stat = headline(alone(seed, drift=0.0, between=0.0, tail=0.0).cases[0])
        assert stat is not None
        assert stat.ci95 is not None
        covered += stat.ci95[0] <= 0.010 <= stat.ci95[1]
    assert covered >= 90


def test_interval_over_several_processes_covers_what_lies_between_them() -> None:
    covered = 0
    for seed in range(60):
        stat = headline(alone(seed, drift=0.0, between=0.02, tail=0.0, processes=3).cases[0])
        assert stat is not None
        assert stat.ci95 is not None
        covered += stat.ci95[0] <= 0.010 <= stat.ci95[1]
    assert covered >= 54


@pytest.mark.parametrize("calls", [3, 20])
def test_warm_up_never_enters_the_headline(calls: int) -> None:
    for seed in range(20):
        case = alone(seed, warm_up=calls, drift=0.0, between=0.0, noise=0.005).cases[0]
        main = case.find("latency", "isolated")
        assert main is not None
        warm = [index for index, bits in enumerate(main.label) if bits & Label.WARM_UP]
        # The first call is made apart, when the batch is prepared; the others open the first block.
        assert warm[: calls - 1] == list(range(calls - 1))
        stats = summarize(case)
        assert stats["latency/isolated/median"].value == pytest.approx(0.010, rel=0.01)
        assert (stats["latency/isolated/mean"].value or 0) < 0.0105
        assert (stats["time/warm_up"].value or 0) > 0.015 * (calls - 1) + 0.03


def test_labels_made_anew_from_a_stored_run_are_the_same() -> None:
    run = alone(3, neighbour=0.5)
    bare = structs.replace(
        run.cases[0],
        series=[
            structs.replace(s, label=[]) if s.metric.tag == "latency" else s for s in run.cases[0].series
        ],
    )
    again, _ = relabel(bare, virtual=bool(run.environment.virtual))
    for one, other in zip(run.cases[0].series, again.series, strict=False):
        if one.metric.tag == "latency":
            assert one.label == other.label
