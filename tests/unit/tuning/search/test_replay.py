"""A session that was killed goes on where it ended."""

from __future__ import annotations

import contextlib

import pytest

from fixtures.scripted_evaluator import Noise, ScriptedEvaluator, landscape
from laptime.records.tuning import Rung
from laptime.tuning.search.ladder import search
from laptime.tuning.search.settings import SearchSettings

RULES = SearchSettings(budget=5_000.0)
QUIET = Noise(block=0.01, spike=0.0, flip=0.0, drift=0.003)


class Killed(Exception):
    """The session ends here."""


def until(count: int, seed: int) -> list[Rung]:
    """What a session has told before it is killed."""
    told: list[Rung] = []

    def heard(rung: Rung) -> None:
        told.append(rung)
        if len(told) == count:
            raise Killed

    with contextlib.suppress(Killed):
        search(landscape(seed, noise=QUIET), RULES, heard)
    return told


def raced(world: ScriptedEvaluator) -> int:
    return sum(kind == "race" for kind, _ in world.log)


@pytest.mark.parametrize("count", [1, 3, 6, 9, 12, 16])
def test_resuming_races_nothing_again_and_comes_to_the_same_set(count: int) -> None:
    whole_world = landscape(4, noise=QUIET)
    whole = search(whole_world, RULES)
    done = until(count, 4)
    there = landscape(5, noise=QUIET)
    found = search(there, RULES, earlier=done)
    assert set(found.recipe.changes) == set(whole.recipe.changes)
    assert raced(there) < raced(whole_world)
    for rung in done:
        same = [
            each
            for each in found.ladder
            if (each.name, each.options, each.ratios) == (rung.name, rung.options, rung.ratios)
        ]
        assert len(same) == 1


def test_a_finished_session_is_taken_as_it_is() -> None:
    told: list[Rung] = []
    first = search(landscape(2, noise=QUIET), RULES, told.append)
    there = landscape(3, noise=QUIET)
    again = search(there, RULES, earlier=told)
    assert again.recipe.changes
    assert set(again.recipe.changes) == set(first.recipe.changes)
    decided = [rung.label for rung in first.ladder if rung.verdict != "not tried"]
    assert [rung.label for rung in again.ladder if rung.verdict != "not tried"][: len(decided)] == decided


def test_what_was_told_before_is_not_told_again() -> None:
    done = until(5, 4)
    told: list[Rung] = []
    search(landscape(4, noise=QUIET), RULES, told.append, earlier=done)
    assert not any(rung in told for rung in done)


def test_a_dropped_change_stays_dropped() -> None:
    told: list[Rung] = []
    search(landscape(2, noise=QUIET), RULES, told.append)
    last = {rung.label: rung for rung in told}
    victim = next(rung for rung in last.values() if rung.kept and rung.ratios)
    changed = Rung(
        **{
            **{name: getattr(victim, name) for name in victim.__struct_fields__},
            "kept": False,
            "dropped": True,
        }
    )
    found = search(landscape(2, noise=QUIET), RULES, earlier=[*told, changed])
    assert victim.name not in found.recipe.names
