"""On the article's knobs, a search ends near the best set that there is."""

from __future__ import annotations

import statistics

import pytest

from fixtures.scripted_evaluator import Noise, ScriptedEvaluator, landscape
from laptime.tuning.optimization import Recipe
from laptime.tuning.search.ladder import search
from laptime.tuning.search.settings import SearchSettings

QUIET = Noise(block=0.01, spike=0.0, flip=0.0, drift=0.003)
BEST = landscape().best()[1]


def regret(world: ScriptedEvaluator, rules: SearchSettings) -> float:
    """How much longer a step is than with the best set."""
    return world.true_step(search(world, rules).recipe) / BEST - 1


def test_the_best_set_is_five_times_as_fast() -> None:
    world = landscape()
    recipe, step = world.best()
    assert world.true_step(Recipe()) / step == pytest.approx(5.0, rel=0.01)
    # Neither everything at once nor the recommended options alone.
    assert len(recipe) < len(world.knobs)
    everything = Recipe(tuple(knob.recommended() for knob in world.knobs if knob.name != "fp16"))
    assert world.true_step(everything) > 1.04 * step


def test_on_a_quiet_machine_the_best_set_is_found() -> None:
    assert [regret(landscape(seed, noise=QUIET), SearchSettings(budget=1800.0)) for seed in range(4)] == [
        pytest.approx(0.0, abs=0.04)
    ] * 4


@pytest.mark.slow
def test_the_fast_mode_ends_within_4_percent_on_the_average() -> None:
    rules = SearchSettings(budget=1200.0)
    assert statistics.mean(regret(landscape(seed), rules) for seed in range(100)) < 0.04


@pytest.mark.slow
def test_the_certified_mode_does_too_when_it_has_the_time() -> None:
    rules = SearchSettings(budget=3600.0, certify=True)
    assert statistics.mean(regret(landscape(seed), rules) for seed in range(60)) < 0.04
