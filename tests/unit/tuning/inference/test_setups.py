"""The best of a table of setups is found: a scripted machine with random tables and SLOs, in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fixtures.scripted_model import ScriptedModel, World
from laptime.analysis.promises import Promise
from laptime.tuning.gates.invariants import word
from laptime.tuning.inference import request as of_requests
from laptime.tuning.inference.evaluator import OF_SETUPS, ModelEvaluator
from laptime.tuning.inference.request import ModelRequest
from laptime.tuning.inference.setups import ROUNDS, Cost, Limits, Seen, Setup, Visit, choose, of_race, table
from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.optimization import Recipe

NOISE, TAIL, SECOND = 0.02, 0.08, 1.0
P95 = float(np.exp(1.6449 * TAIL))


class Machine:
    """Every setup has a latency of its own, drawn at random; visits scatter by 2 %, calls by 8 %."""

    def __init__(self, setups: list[Setup], seed: int) -> None:
        self.draw = np.random.default_rng(seed)
        self.latency = {each: 0.012 * each.batch**0.7 * np.exp(0.4 * self.draw.normal()) for each in setups}
        self.clock = 0.0

    def rate(self, setup: Setup) -> float:
        return setup.instances * setup.batch / (self.latency[setup] * float(np.exp(TAIL**2 / 2)))

    def visit(self, setup: Setup) -> Visit:
        self.clock += SECOND
        calls = int(SECOND / self.latency[setup]) * setup.instances
        slow = np.exp(NOISE * self.draw.normal())
        seconds = self.latency[setup] * slow * np.exp(TAIL * self.draw.standard_normal(calls))
        return Visit(list(seconds), self.rate(setup) / float(slow), 100_000_000 * setup.instances)


def found(machine: Machine, limits: Limits, budget: float, cost: Cost) -> Setup | None:
    setups = list(machine.latency)
    best, _ = choose(
        setups,
        machine.visit,
        limits=limits,
        noise=NOISE,
        is_over=lambda: machine.clock > budget,
        cost=cost,
    )
    return best


@pytest.mark.parametrize(
    ("seeds", "cost"), [(100, lambda setup: 1.0), (20, lambda setup: setup.instances * setup.threads)]
)
def test_the_optimum_is_known(seeds: int, cost: Callable[[Setup], float]) -> None:
    """Within 3 % of brute force on the true table, in at least 95 of 100."""
    good = 0
    for seed in range(seeds):
        machine = Machine(table(2, (1, 2), (1, 4, 16)), seed)
        low, high = np.quantile(list(machine.latency.values()), (0.1, 1.0))
        slo = P95 * float(machine.draw.uniform(low, high))
        keeping = [each for each in machine.latency if machine.latency[each] * P95 <= slo]
        best = max(machine.rate(each) / cost(each) for each in keeping)
        one = found(machine, Limits(Promise(slo, "p95")), 150.0, cost)
        assert one is not None
        good += one in keeping and machine.rate(one) / cost(one) >= 0.97 * best
    assert good >= 0.95 * seeds


def test_setups_that_cannot_win_are_left_early() -> None:
    machine = Machine(table(4, (1, 2, 4), (1, 4, 16)), 1)
    found(machine, Limits(), 10_000.0, lambda setup: 1.0)
    assert machine.clock < 0.1 * ROUNDS * len(machine.latency)


@pytest.mark.parametrize(("slower", "is_far"), [(1.6, True), (1.3, True), (1.1, False)])
def test_what_is_far_behind_leaves_after_two_visits(slower: float, is_far: bool) -> None:
    one, other, third = (Setup(1, threads, 1) for threads in (1, 2, 4))
    rates = {one: 100.0, other: 100.0 / slower, third: 100.5}

    def visit(setup: Setup) -> Visit:
        return Visit([1 / rates[setup]] * 10, rates[setup], 1)

    _, seen = choose(list(rates), visit, limits=Limits(), noise=NOISE, is_over=lambda: False)
    assert (len(seen[other].rates) == 2) == is_far
    assert seen[other].left
    assert min(len(seen[each].rates) for each in (one, third)) >= 3


def test_the_table_has_room_on_its_cpus() -> None:
    setups = table(6, (1, 2, 3, 8), (1,))
    assert {(each.instances, each.threads) for each in setups} == {
        *((1, threads) for threads in (1, 2, 4, 6)),
        *((2, threads) for threads in (1, 2, 3)),
        *((3, threads) for threads in (1, 2)),
    }


def test_where_nothing_keeps_the_limits_the_nearest_is_told() -> None:
    machine = Machine(table(2, (1, 2), (1, 4)), 3)
    fastest = min(machine.latency, key=lambda each: machine.latency[each])
    assert found(machine, Limits(Promise(1e-6, "p99")), 100.0, lambda setup: 1.0) == fastest


def test_what_does_not_run_is_left_out() -> None:
    one, other = Setup(1, 1, 1), Setup(2, 1, 1)
    visits = {one: None, other: Visit([0.1] * 10, 20.0, 1)}
    best, seen = choose([one, other], visits.get, limits=Limits(), noise=NOISE, is_over=lambda: False)
    assert (best, seen[one].left) == (other, "it does not run")
    assert choose([one], visits.get, limits=Limits(), noise=NOISE, is_over=lambda: False)[0] is None


@pytest.mark.parametrize("options", [{"instances": [1, 2]}, {"batches": [1, 8]}, {}])
def test_threads_are_no_candidate_where_they_are_chosen_later(options: dict[str, list[int]]) -> None:
    model = ScriptedModel(World({}), **{"goal": "throughput", **options})
    call = LoopProfile(step=0.02, cpus=4, facts=frozenset({"cpu"}))
    offered = ModelEvaluator.candidates(model, call, Recipe())
    names = {each.change.name for each in offered.usable}
    assert ("threads" in names) == (not options)
    assert offered.ruled_out.get("threads", "") == (OF_SETUPS if options else "")


@pytest.mark.parametrize(
    ("goal", "device", "named", "instances"),
    [
        ("throughput", "cpu", [], [1, 2, 4]),
        ("throughput", "cpu", [3], [3]),
        ("throughput", "cuda:0", [], [1]),
        ("latency", "cpu", [], [1]),
    ],
)
def test_instances_that_nobody_named_fill_the_cpus(
    goal: Any, device: str, named: list[int], instances: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("laptime.verbs.bench.variants.room", lambda: 6)
    request = ModelRequest(target="m", goal=goal, device="auto", instances=named)
    assert request.place == ("cpu" if named == [3] else "auto")
    assert request.on(device, 1).instances == instances
    assert request.on(device, 1).has_setups == (instances != [1])


@pytest.mark.parametrize(("free", "instances"), [(9_000, [1, 2, 4]), (7_999, [1, 2]), (10, [1])])
def test_both_sides_of_a_race_fit_into_the_memory(
    free: int, instances: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("laptime.verbs.bench.variants.room", lambda: 6)
    monkeypatch.setattr(of_requests, "available_bytes", lambda: free)
    assert ModelRequest(target="m", instances=[]).on("cpu", 1_000).instances == instances


@pytest.mark.parametrize(
    ("cpus", "instances", "setup"),
    [
        (2, [1, 2], Setup(2, 1, 4)),
        (6, [1, 2, 4], Setup(4, 1, 4)),
        (64, [1, 2, 4, 8, 16], Setup(8, 8, 4)),
        (2, [4], Setup(1, 0, 4)),
        (8, [1], Setup(1, 0, 4)),
    ],
)
def test_a_side_of_a_race_has_many_instances(cpus: int, instances: list[int], setup: Setup) -> None:
    assert of_race(cpus, instances, 4) == setup


def test_too_few_calls_are_no_promise() -> None:
    seen = Seen(seconds=[0.001] * 50, rates=[1000.0])
    assert word(seen.checks(Limits(Promise(0.02, "p99")))) == "undecided"
