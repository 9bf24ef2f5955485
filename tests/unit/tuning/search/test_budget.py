"""A session uses its budget, and never more than a trial beyond it: on machines of any speed."""

from __future__ import annotations

import random

import pytest

from fixtures.scripted_evaluator import Knob, ScriptedEvaluator
from laptime.experiment.pairs import LEAST
from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.optimization import Recipe
from laptime.tuning.script.final_set import final_cost
from laptime.tuning.script.subject import ScriptSubject
from laptime.tuning.search.ladder import search
from laptime.tuning.search.settings import SearchSettings
from laptime.tuning.session.final_gain import CAUTION, FinalCost
from laptime.tuning.time_accounting import TrialAccounting

USED = 0.85


def machine(seed: int) -> tuple[ScriptedEvaluator, float]:
    """A machine whose steps, starts and gates take what chance says, and a budget."""
    chance = random.Random(seed)
    step, start = chance.choice([0.02, 0.1, 0.5, 1.0]), chance.uniform(1.0, 8.0)
    helps = chance.random() < 0.5
    knobs = [
        Knob(
            name=f"knob{number:02}",
            effect={"forward": 0.6 if helps and number % 5 == 1 else 1.0},
            start=20.0 if number == 3 else 0.0,  # one compiles
        )
        for number in range(20)
    ]
    world = ScriptedEvaluator(
        {"forward": 0.7 * step, "backward": 0.3 * step},
        tuple(knobs),
        seed,
        process_start=start,
        diagnosis=2 * start + 10 * step,
        gating=3 * start,
    )
    return world, chance.choice([60.0, 90.0, 150.0, 360.0, 600.0])


@pytest.mark.parametrize("seed", range(40))
def test_a_session_uses_its_budget_or_names_the_reason(seed: int) -> None:
    world, budget = machine(seed)
    script = LoopProfile(step=world.true_step(Recipe()))
    accounting = TrialAccounting(first_step=world.process_start, forked_step=world.process_start)
    accounting.gate_trial = world.gating / 2

    def cost(step: float) -> FinalCost:
        return final_cost(accounting, script, step=step)

    found = search(
        world,
        SearchSettings(
            budget=budget,
            reserve=lambda step: cost(step).keep_back(budget) / budget,
            late_reserve=lambda step: CAUTION * cost(step).least / budget,
            bare_reserve=lambda step: cost(step).bare / budget,
        ),
    )
    searched, after = world.elapsed(), cost(found.after.step)
    # The first diagnosis is needed in any case; then a round may be on when the time is up, which ends a
    # real one.
    within = max(budget, found.before.seconds) + 2 * world.process_start + 3 * world.steps * script.step
    assert searched <= within
    if found.recipe.names:
        left = budget - searched
        pairs = int(left / after.pair) if left >= LEAST * after.pair else 0
        searched += min(pairs, ScriptSubject.MOST_PAIRS) * after.pair
        assert searched <= within
    if searched < USED * budget:
        assert found.why_ended
        assert found.ended == "complete" or "were left" in found.why_ended or "no time" in found.why_ended


def test_what_a_race_lacked_stands_in_the_reason() -> None:
    world, _ = machine(0)
    found = search(world, SearchSettings(budget=world.diagnosis + 5.0, reserve=lambda step: 0.0))
    assert not found.recipe.names
    assert found.ended == "budget"
    assert found.shortest > 5.0
    assert f"a race takes at least {found.shortest:.0f} s" in found.why_ended


def test_nothing_is_diagnosed_again_where_no_time_is_left_to_act_on_it() -> None:
    knobs = (Knob(name="good", effect={"forward": 0.3}, prior=1.0),)

    def diagnoses(budget: float) -> int:
        parts = {"forward": 0.1, "data": 0.1}
        world = ScriptedEvaluator(parts, knobs, diagnosis=30.0, steps=2, identity=False, overlap=False)
        found = search(world, SearchSettings(budget=budget, reserve=lambda step: 0.1))
        assert found.recipe.names == ("good",)
        return [kind for kind, _ in world.log].count("diagnose")

    assert (diagnoses(75.0), diagnoses(200.0)) == (1, 2)


def test_with_a_gate_in_reserve_a_session_tries_what_it_could_not_measure() -> None:
    knobs = (Knob(name="good", effect={"forward": 0.3}, prior=1.0),)

    def kept(bare: bool) -> tuple[str, ...]:
        world = ScriptedEvaluator({"forward": 0.1}, knobs, diagnosis=20.0, identity=False)
        terms = SearchSettings(
            budget=60.0,
            reserve=lambda step: 0.6,
            late_reserve=lambda step: 0.6,
            bare_reserve=(lambda step: 0.1) if bare else None,
        )
        return search(world, terms).recipe.names

    assert (kept(bare=False), kept(bare=True)) == ((), ("good",))
