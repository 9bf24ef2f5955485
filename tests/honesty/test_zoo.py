"""Programs of known truth: what is trusted is true, and a program's own doing is no disturbance."""

from __future__ import annotations

import pytest

from fixtures.runs import environment
from fixtures.zoo.programs import MODELS, PROGRAMS, truth
from fixtures.zoo.score import Row, row, simulated
from laptime.probes import machine


@pytest.fixture(autouse=True)
def _known_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "environment", environment)


def scored(name: str, *, runs: int) -> Row:
    known = truth(PROGRAMS[name])
    return row(name, [simulated(name, seed, known) for seed in range(runs)], known)


OWN = [name for name in PROGRAMS if name.startswith(("own_", "pool_"))]


@pytest.mark.parametrize("name", [*OWN, "constant", "bimodal", "periodic_stall", "rare_stall", "slow_down"])
def test_what_a_program_does_by_itself_is_in_its_numbers(name: str) -> None:
    found = scored(name, runs=6)
    assert found.trusted == 6, found
    assert found.covered >= 0.9 * found.intervals, found


@pytest.mark.parametrize("name", ["clustered", "speed_flips"])
def test_what_was_seen_too_rarely_is_not_trusted(name: str) -> None:
    """But for runs without any burst or flip: they cannot know of them."""
    found = scored(name, runs=25)
    assert found.wrongly_trusted <= 2, found
    assert found.runs - found.trusted >= 10, found


def test_speeds_of_whole_processes_are_seen() -> None:
    """But where three processes happen to have the same."""
    found = scored("modes_of_processes", runs=8)
    assert found.wrongly_trusted == 0, found
    assert 1 <= found.trusted <= 5, found


@pytest.mark.parametrize("name", [name for name in PROGRAMS if PROGRAMS[name].outside])
def test_what_the_outside_does_is_not(name: str) -> None:
    found = scored(name, runs=6)
    assert found.trusted >= 3, found
    assert found.covered >= 0.9 * found.intervals, found


@pytest.mark.parametrize("name", ["queue_1.1", "random_queue_1.5"])
def test_a_queue_that_grows_has_a_throughput_and_no_latency(name: str) -> None:
    found = scored(name, runs=4)
    assert found.trusted == 0
    assert set(found.example.values) == {"throughput"}
    assert found.example.values["throughput"] == pytest.approx(found.truth.throughput, rel=0.2)


@pytest.mark.parametrize("name", ["queue_0.9", "queue_of_own_sleep"])
def test_a_queue_in_balance_is_timed_as_one(name: str) -> None:
    found = scored(name, runs=3)
    assert found.trusted == 3, found
    assert found.covered == found.intervals, found


@pytest.mark.torch
@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_called_as_its_author_calls_it(name: str) -> None:
    """Or its number is invalid, as where it sets the number of threads that was asked for."""
    found = scored(name, runs=1)
    word = "invalid" if name == "threads_in_forward" else "trusted"
    assert found.example.word == word, found
    assert found.covered == found.intervals, found


@pytest.mark.slow
def test_the_zoo_as_a_whole_keeps_its_promises() -> None:
    rows = [scored(name, runs=20) for name in PROGRAMS]
    trusted, runs = sum(each.trusted for each in rows), sum(each.runs for each in rows)
    assert sum(each.covered for each in rows) >= 0.95 * sum(each.intervals for each in rows), rows
    assert sum(each.wrongly_trusted for each in rows) <= 0.005 * trusted, rows
    assert sum(each.wrongly_noisy for each in rows) <= 0.05 * runs, rows
