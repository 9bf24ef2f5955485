"""What follows a search takes about as long as trials have shown; what that leaves is the search's."""

from __future__ import annotations

import math

import pytest

from laptime.experiment.pairs import LEAST
from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.script import final_set as of_scripts
from laptime.tuning.script.final_set import final_cost
from laptime.tuning.script.trial_runner import START
from laptime.tuning.session.final_gain import CAUTION, MOST_RESERVED, FinalCost, shortfall
from laptime.tuning.time_accounting import TrialAccounting
from laptime.tuning.trial.messages import TrialResult


def cost(accounting: TrialAccounting, *, step: float = 0.5, final: float = 0.25) -> FinalCost:
    return final_cost(accounting, LoopProfile(step=step), step=final, changes=["compile"])


def test_a_pair_is_two_fresh_processes() -> None:
    found = cost(TrialAccounting(first_step=6.0, forked_step=1.0))
    sides = [of_scripts.cost(6.0, step) for step in (0.5, 0.25)]
    assert found.pair == pytest.approx(sum(sides))
    assert found.check == pytest.approx(sides[1])


def test_before_anything_was_started_a_start_is_guessed() -> None:
    assert cost(TrialAccounting()).pair == pytest.approx(cost(TrialAccounting(first_step=START)).pair)


def test_a_final_side_that_compiles_does_so_in_every_process() -> None:
    accounting = TrialAccounting(first_step=6.0)
    before = cost(accounting)
    accounting.add_compile("compile", 40.0)  # the first one, which fills the cache
    accounting.add_compile("compile", 8.0)
    after = cost(accounting)
    assert after.pair - before.pair == pytest.approx(8.0)
    assert after.check - before.check == pytest.approx(8.0)
    assert accounting.compiled_by == {"compile": 40.0}
    accounting.add_compile("compile_max_autotune", 100.0)  # not in the final set
    assert cost(accounting).pair == pytest.approx(after.pair)


def test_trials_that_start_slower_than_before_are_kept_more_time_for() -> None:
    accounting = TrialAccounting()
    starts = [(6.0, False), (2.0, True), (2.2, True), (2.0, True), (4.4, True), (4.0, True), (4.0, True)]
    quiet: list[float] = []
    for first, is_forked in starts:
        accounting.add_trial(TrialResult(first=first), is_forked=is_forked)
        quiet.append(accounting.pace)
    assert quiet[:5] == pytest.approx([1.0] * 5)  # one slow start says nothing
    assert accounting.pace == pytest.approx(1.5)
    assert cost(accounting).pair == pytest.approx(1.5 * cost(TrialAccounting(first_step=6.0)).pair)
    assert cost(accounting).check == pytest.approx(1.5 * cost(TrialAccounting(first_step=6.0)).check)


def test_short_first_steps_of_forks_say_little_about_the_machine() -> None:
    """Of a public script: measuring three pairs of 14 s was expected to take 7 minutes, and left out."""
    accounting = TrialAccounting()
    for first in (0.48, 1.47, 1.8, 7.75, 7.75):
        accounting.add_trial(TrialResult(first=first), is_forked=True)
    assert accounting.pace < 1.6


def test_a_hurried_pair_starts_no_interpreter() -> None:
    assert cost(TrialAccounting(first_step=6.0)).hurried == math.inf  # nothing was forked
    accounting = TrialAccounting(first_step=6.0, forked_step=1.0, forks=1)
    found = cost(accounting)
    assert found.pair - found.hurried == pytest.approx(2 * 5.0)
    assert found.least == pytest.approx(found.bare + LEAST * found.hurried)


def test_trials_that_end_slowly_count_with_their_end() -> None:
    slow = cost(TrialAccounting(first_step=6.0, ending=3.0))
    assert slow.pair - cost(TrialAccounting(first_step=6.0)).pair == pytest.approx(6.0)


def test_a_gate_takes_what_the_last_one_took() -> None:
    accounting = TrialAccounting(first_step=6.0, forked_step=2.0)
    guessed = cost(accounting).gate
    accounting.gate_trial = 30.0
    assert cost(accounting).gate > guessed > 0


def test_a_search_leaves_alone_what_the_fewest_pairs_need_however_short_the_budget() -> None:
    found = FinalCost(gate=5.0, pair=20.0, check=10.0, record=20.0)
    assert found.keep_back(600.0) == pytest.approx(CAUTION * found.usual)
    assert found.keep_back(200.0) == pytest.approx(MOST_RESERVED * 200.0)
    assert found.keep_back(60.0) == pytest.approx(CAUTION * found.least)
    assert found.bare < found.least < found.usual


def test_a_shortfall_names_a_budget_that_would_do() -> None:
    found = FinalCost(gate=0.0, pair=20.0, check=10.0, record=20.0)
    lacked = found.shortfall(50.0, 60.0)
    assert (lacked.what, lacked.left) == ("measurement", 10.0)
    assert lacked.needs == pytest.approx(LEAST * 20.0 + found.hand_back)
    assert lacked.budget >= 50.0 + CAUTION * lacked.needs
    assert lacked.budget % 30 == 0
    assert lacked.sentence == (
        "the gain was not measured again: it takes about 62.0 s, and 10.0 s were left; "
        "a budget of about 150 s would be enough"
    )
    # What follows the race that was lacking is part of the budget, too.
    assert shortfall("race", "", 20.0, 40.0, 20.0, more=100.0).budget > 40.0 + 120.0
