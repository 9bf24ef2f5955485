"""What follows the search of a model, and when its confirmation stops."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from fixtures.scripted_model import ScriptedModel, World
from laptime.experiment.pairs import FEWEST, LEAST, measure_pairs
from laptime.records.event import ignore
from laptime.records.tuning import Gate
from laptime.store.live_run import LiveRun
from laptime.tuning.inference import final_set, subject
from laptime.tuning.inference.evaluator import ModelEvaluator
from laptime.tuning.inference.final_set import VISIT
from laptime.tuning.inference.setups import Setup, Visit
from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.optimization import Change, Recipe
from laptime.tuning.session import session
from laptime.tuning.session.final_gain import CAUTION, MOST_RESERVED, FinalCost
from laptime.tuning.session.session import Session


def test_a_pair_is_a_start_and_calls_of_both_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    good, model = Recipe((Change("good"),)), ScriptedModel(World({"good": 0.5}))
    monkeypatch.setattr(subject, "seconds_to_record", lambda evaluator: 7.0)
    model.ready, model.ready_by, model.loop_profile = 4.0, {good: 10.0}, LoopProfile(step=0.02)
    made = subject.ModelSubject(model)
    found = made.cost(good, 0.5)
    assert found.pair == pytest.approx(4.0 + subject.SECONDS + 10.0 + 5 * 0.5)
    assert found.gate == pytest.approx(10.0 + 5 * 0.5)
    assert found.usual - found.least == pytest.approx(found.pair + 7.0)
    model.gates[good] = Gate(word="passed")
    assert made.cost(good, 0.5).gate == 0.0


def test_a_search_leaves_alone_what_the_fewest_pairs_need() -> None:
    found = FinalCost(gate=0.0, pair=20.0, record=30.0)
    assert found.keep_back(600.0) == pytest.approx(CAUTION * found.usual)
    assert found.keep_back(200.0) == pytest.approx(MOST_RESERVED * 200.0)
    assert found.keep_back(60.0) == pytest.approx(CAUTION * found.least)


def pairs_within(end: float, *, expected: float, each: float = 5.0) -> int:
    """Pairs of a model whose processes take so many seconds each, begun at second 0."""
    model = ScriptedModel(World({}))

    @contextmanager
    def fleet(recipe: Recipe, setup: Setup) -> Any:
        model.world.clock += each - 0.4

        def visit(seconds: float) -> Visit:
            model.world.clock += 0.1
            calls = [0.1, 0.11, 0.09, 0.1]
            return Visit(seconds=calls, rate=10.0, peak=1000)

        yield SimpleNamespace(call=0.1, visit=visit, wait=lambda: None)

    model.fleet = fleet  # type: ignore[method-assign, assignment]
    made = subject.ModelSubject(model)
    given: dict[str, Any] = {
        "most": 9,
        "elapsed": model.elapsed,
        "until": 0.0,
        "end": end,
        "expected": expected,
    }
    count = sum(1 for _ in measure_pairs(lambda number, until: made.pair(Recipe(), number, until), **given))
    assert model.elapsed() <= end
    return count


def test_no_pair_is_begun_that_ends_too_late_and_too_few_for_an_interval_neither() -> None:
    assert pairs_within(45.0, expected=10.0) == FEWEST
    assert pairs_within(35.0, expected=10.0) == LEAST
    assert pairs_within(25.0, expected=10.0) == 0


@pytest.mark.parametrize(
    ("options", "budget", "share"),
    [
        ({"instances": [1, 2]}, 600.0, 2 * 2 * (VISIT + 3.0) / 600.0),  # 1 x 2 and 2 x 1 threads
        ({"instances": [1, 2], "slo": "1s@p95"}, 600.0, 3 * 4 * (VISIT + 3.0) / 600.0),  # 1 x 1, too
        ({"instances": [1, 2]}, 60.0, session.BETWEEN),
        ({}, 600.0, 0.0),
    ],
)
def test_no_more_is_kept_back_for_setups_than_their_visits_take(
    options: dict[str, Any], budget: float, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(final_set, "room", lambda: 2)
    model = ScriptedModel(World({}), goal="throughput", budget=budget, **options)
    made = Session(subject.ModelSubject(model), LiveRun("tune", ignore))
    cost = made.subject.cost(Recipe(), 0.02).keep_back(budget) / budget
    assert made.settings().reserve(0.02) - cost == pytest.approx(share)


def test_a_race_costs_its_processes_and_the_calls_that_do_not_count() -> None:
    """Blocks of 0.4 s, two calls of 20 ms before each, and new processes every three rounds."""
    model = ScriptedModel(World({}), goal="throughput")
    model.ready, model.ready_by = 8.0, {Recipe((Change("onnxruntime"),)): 4.0}
    call = LoopProfile(step=0.02, cpus=4, facts=frozenset({"cpu"}))
    first = {each.change.name: each for each in ModelEvaluator.candidates(model, call, Recipe()).usable}
    assert first["threads"].cost == pytest.approx(2 * (0.4 + 2 * 0.02) + 8.0 / 3)  # both load at once
    kept = ModelEvaluator.candidates(model, call, Recipe((Change("onnxruntime"),))).usable
    threads = {each.change.name: each for each in kept}["threads"]
    # Three rounds need one start of both sides and no more; nothing is built for settings.
    assert threads.start + 3 * threads.cost == pytest.approx(4.0 + 3 * 2 * (0.4 + 2 * 0.02))


@pytest.mark.parametrize(("call", "calls", "blocks"), [(0.02, 20, 9), (0.13, 3, 9), (0.3, 2, 9), (2.5, 1, 5)])
def test_slow_calls_are_timed_few_times(call: float, calls: int, blocks: int) -> None:
    """Nine blocks of three calls, each behind two more, took a third of a session with calls of seconds."""
    model = ScriptedModel(World({}, call=call, noise=0.0, process=0.0, tail=0.0), goal="throughput")
    assert model.calls_in_block(call) == calls
    model.diagnose(Recipe())
    assert len(model.timings[Recipe()].seconds) == calls * blocks
