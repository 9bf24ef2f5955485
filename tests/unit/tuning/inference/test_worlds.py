"""The search over models on machines of known truth: the same search as for scripts, the real evaluator."""

from __future__ import annotations

import pytest

from fixtures.scripted_model import ScriptedModel, World
from laptime.tuning.inference import subject
from laptime.tuning.inference.subject import ModelSubject
from laptime.tuning.optimization import Recipe
from laptime.tuning.search import ladder
from laptime.tuning.search.ladder import SearchResult
from laptime.tuning.search.settings import SearchSettings
from laptime.tuning.session.final_gain import CAUTION


def searched(factors: dict[str, float], seed: int, *, certify: bool) -> SearchResult:
    settings = SearchSettings(budget=3600.0, certify=certify, reserve=lambda step: 0.25)
    return ladder.search(ScriptedModel(World(factors, seed)), settings)


def test_where_nothing_helps_hardly_anything_is_kept() -> None:
    """--certify: at most 5 % of sessions keep a useless candidate."""
    useless = {f"useless{number}": 1.0 for number in range(14)}
    kept = [len(searched(useless, seed, certify=True).recipe) for seed in range(60)]
    assert sum(map(bool, kept)) <= 3


@pytest.mark.parametrize("sessions", [10, pytest.param(40, marks=pytest.mark.slow)])
def test_the_one_of_forty_that_is_faster_is_found(sessions: int) -> None:
    """3 % faster, blocks scatter by 1 %: found in at least 80 %."""
    forty = {**{f"useless{number}": 1.0 for number in range(39)}, "good": 0.97}
    found = ["good" in searched(forty, seed, certify=False).recipe.names for seed in range(sessions)]
    assert sum(found) >= 0.8 * sessions


@pytest.mark.parametrize("factor", [0.5, 0.8])
def test_a_large_gain_is_found_and_its_size_is_right(factor: float) -> None:
    result = searched({"good": factor, "bad": 1.4}, 1, certify=True)
    assert result.recipe.names == ("good",)
    rung = next(each for each in result.ladder if each.name == "good")
    assert rung.speedup == pytest.approx(1 / factor, rel=0.03)


@pytest.mark.parametrize("call", [0.002, 0.01, 0.045])
@pytest.mark.parametrize(
    "effects", [(1.0, 0.98, 0.6, 0.55, 1.2, 1.05, 0.9), (1.0, 1.3, 1.6, 1.1, 1.2, 1.05, 0.5)]
)
def test_three_minutes_are_enough_for_seven_changes_of_short_calls(
    effects: tuple[float, ...], call: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Alone or together with others. Two of seven were raced: 72 of 180 s were kept back."""
    monkeypatch.setattr(subject, "seconds_to_record", lambda evaluator: 5.0)
    seven = {f"change{at}": effect for at, effect in enumerate(effects)}
    world = World(seven, seed=1, call=call, ready=1.5)  # both sides load at the same time
    model = ScriptedModel(world, budget=(budget := 180.0))
    cost = lambda step: ModelSubject(model).cost(Recipe(), step)  # noqa: E731
    settings = SearchSettings(
        budget=budget,
        reserve=lambda step: min(1.0, cost(step).keep_back(budget) / budget),
        late_reserve=lambda step: CAUTION * cost(step).least / budget,
        bare_reserve=lambda step: cost(step).bare / budget,
    )
    rungs = ladder.search(model, settings).ladder
    tried = {each.name for each in rungs if each.rounds or "together" in each.reason}
    assert tried == {"identity", *seven}, [(each.name, each.rounds, each.reason) for each in rungs]
    assert model.elapsed() < budget
