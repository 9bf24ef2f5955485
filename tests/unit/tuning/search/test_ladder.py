"""The whole search on scripted worlds whose truth is known."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import replace

import pytest

from fixtures.scripted_evaluator import Knob, Noise, ScriptedEvaluator, landscape
from laptime.records.tuning import Rung
from laptime.tuning.loop_profile import SHARES, LoopProfile
from laptime.tuning.optimization import Change, Recipe
from laptime.tuning.search import ladder, ranking, together
from laptime.tuning.search.evaluator import CandidateSet, Round, TrialFailed
from laptime.tuning.search.ladder import SearchInterrupted, SearchResult, plan_races, search
from laptime.tuning.search.settings import SearchSettings
from laptime.tuning.search.state import SearchState

QUIET = Noise(block=0.005, drift=0.002, spike=0.0, flip=0.0, process=0.001)
STEP = {"data": 10e-3, "forward": 30e-3, "backward": 50e-3, "optimizer": 10e-3}
PARTS = ("forward", "backward")
HALF = {"forward": 0.5, "backward": 0.5}
LONG = SearchSettings(budget=20_000.0)
ONE_OF = frozenset({"one of them"})
"""Given by changes of which one can stand in a recipe: they cannot be raced together."""


def world(*knobs: Knob, noise: Noise = QUIET, seed: int = 0, overlap: bool = False) -> ScriptedEvaluator:
    return ScriptedEvaluator(STEP, knobs, seed, noise, overlap=overlap)


def rung(found: SearchResult, label: str) -> Rung:
    return [each for each in found.ladder if each.label == label][-1]


def test_what_helps_is_kept_and_what_does_not_is_told() -> None:
    told: list[Rung] = []
    found = search(
        world(Knob(name="good", effect=HALF), Knob(name="idle", claims=("forward",))), LONG, told.append
    )
    assert found.recipe.names == ("good",)
    good, idle = rung(found, "good"), rung(found, "idle")
    assert (good.verdict, good.kept, good.gate.word) == ("faster", True, "passed")
    assert good.speedup == pytest.approx(1 / 0.6, rel=0.05)
    assert good.ratios
    assert good.seconds > 0
    assert good.step == pytest.approx(0.06, rel=0.1)
    assert not idle.kept
    assert "x [" in idle.reason
    assert {each.label for each in told} == {"identity", "good", "idle"}
    assert found.ended == "complete"
    assert found.ruled_out == {"fp8": "this device does not compute it"}


@pytest.mark.parametrize("seed", range(3))
def test_what_stays_open_is_raced_again_only_if_that_race_is_longer(seed: int) -> None:
    """A public script (pytorch/examples, siamese_network): one change was raced thirteen times, two never."""
    loud = Noise(block=0.10, drift=0.002, spike=0.0, flip=0.0, process=0.001)
    knobs = [Knob(name="first", claims=PARTS), *(Knob(name=f"k{n}", claims=("forward",)) for n in range(6))]
    found = search(world(*knobs, noise=loud, seed=seed), SearchSettings(budget=300))
    raced = [each.label for each in found.ladder if each.verdict != "not tried"]
    assert {knob.name for knob in knobs} <= set(raced), "none is left out for it"
    assert max(raced.count(name) for name in raced) <= 2


def test_nothing_is_kept_whose_gate_does_not_pass() -> None:
    knobs = (
        Knob(name="wrong", effect=HALF, gate="failed"),
        Knob(name="unknown", effect=HALF, gate="undecided"),
    )
    there = world(*knobs)
    found = search(there, LONG)
    assert found.recipe == Recipe()
    assert rung(found, "wrong").verdict == "faster"
    assert "gradient_norm is 4.00" in rung(found, "wrong").reason
    assert "not decide" in rung(found, "unknown").reason
    # What failed its gate is neither raced again nor taken along with others.
    assert [kind for kind, names in there.log if names == ("wrong",)] == ["race", "gate"]


@pytest.mark.parametrize("kind", ["crashed", "memory", "hung", "recompiles", "refused"])
def test_the_session_goes_on_after_a_failure(kind: str) -> None:
    found = search(world(Knob(name="bad", effect=HALF, fails=kind), Knob(name="good", effect=HALF)), LONG)
    assert found.recipe.names == ("good",)
    assert rung(found, "bad").verdict == "failed"
    assert "not run" in rung(found, "bad").reason


def test_a_control_that_takes_too_much_of_a_short_session_is_left_out() -> None:
    there = world(Knob(name="good", effect=HALF))
    least = rung(search(there, LONG), "identity")
    seconds = least.seconds / least.rounds * 3
    found = search(world(Knob(name="good", effect=HALF)), SearchSettings(budget=5 * seconds))
    assert rung(found, "identity").rounds == 0
    assert rung(found, "identity").reason.startswith("would take ")
    assert rung(found, "good").verdict == "faster"


class Interrupted(ScriptedEvaluator):
    """The user presses Ctrl-C when the race of `stop` has begun."""

    stop = ""

    def race(self, incumbent: Recipe, candidate: Recipe, *, fresh: bool = False) -> Generator[Round]:
        if self.stop in candidate.names:
            raise KeyboardInterrupt
        return super().race(incumbent, candidate, fresh=fresh)


def test_ctrl_c_hands_back_what_was_kept_until_then() -> None:
    there = Interrupted(
        STEP, (Knob(name="good", effect=HALF), Knob(name="late", claims=("forward",))), 0, QUIET
    )
    there.stop = "late"
    with pytest.raises(SearchInterrupted) as stopped:
        search(there, LONG)
    found = stopped.value.result
    assert found.recipe.names == ("good",)
    assert rung(found, "good").kept
    assert found.ended == "budget"


def test_ctrl_c_before_anything_was_kept_has_nothing_to_hand_back() -> None:
    there = Interrupted(STEP, (Knob(name="good", effect=HALF),), 0, QUIET)
    there.stop = "good"
    with pytest.raises(KeyboardInterrupt) as stopped:
        search(there, LONG)
    assert not isinstance(stopped.value, SearchInterrupted)


def test_a_script_that_does_not_run_is_the_callers_to_tell() -> None:
    class Broken(ScriptedEvaluator):
        def diagnose(self, recipe: Recipe) -> LoopProfile:
            raise TrialFailed("no_steps", "it never trains")

    with pytest.raises(TrialFailed):
        search(Broken(STEP, ()), LONG)


def test_a_loser_costs_little() -> None:
    there = world(Knob(name="bad", effect={"forward": 3.0, "backward": 3.0}))
    found = search(there, LONG)
    assert rung(found, "bad").verdict == "slower"
    assert rung(found, "bad").rounds == 2


def test_what_cannot_be_seen_is_not_raced() -> None:
    there = world(Knob(name="tiny", effect={"optimizer": 0.5}, reach=0.05))
    found = search(there, LONG)
    tiny = rung(found, "tiny")
    assert (tiny.verdict, tiny.rounds) == ("not tried", 0)
    assert "save 0.5%" in tiny.reason
    assert ("race", ("tiny",)) not in there.log


def test_a_loud_machine_takes_the_time_that_is_left_to_see_less() -> None:
    """48 rounds see 5 % where the 18 of a usual race see 8 %; a change that could save 7 % was not raced."""
    loud = Noise(block=0.1, drift=0.0, spike=0.0, flip=0.0, process=0.0)
    knob = Knob(name="small", effect={"forward": 0.76}, claims=("forward",), reach=0.24)
    found = search(world(knob, noise=loud), LONG)
    assert rung(found, "small").rounds >= 6
    there = world(knob, noise=loud)
    search(there, SearchSettings(budget=60.0))
    assert ("race", ("small",)) not in there.log


def test_exclusive_changes_are_tried_both_ways() -> None:
    auto = frozenset({"autocast"})
    knobs = (
        Knob(name="fp16", effect={"forward": 0.7, "backward": 0.7}, gives=auto, prior=0.9),
        Knob(name="bf16", effect={"forward": 0.5, "backward": 0.5}, gives=auto, prior=0.1),
    )
    found = search(world(*knobs), LONG)
    assert found.recipe.names == ("bf16",)
    assert "of fp16" in rung(found, "bf16").reason
    assert not rung(found, "fp16").kept
    assert "by bf16" in rung(found, "fp16").reason
    best_first = tuple(replace(knob, prior=1 - knob.prior) for knob in knobs)
    assert search(world(*best_first), LONG).recipe.names == ("bf16",)


def test_what_needs_another_waits_for_it() -> None:
    first = Knob(name="first", effect={"forward": 0.5}, gives=frozenset({"ground"}), prior=0.1)
    second = Knob(name="second", effect={"backward": 0.5}, needs=frozenset({"ground"}), prior=0.9)
    assert search(world(second, first), LONG).recipe.names == ("first", "second")
    alone = search(world(second), LONG)
    assert (rung(alone, "second").verdict, rung(alone, "second").reason) == ("not tried", "needs ground")
    against = replace(second, needs=frozenset({"!ground"}), prior=0.05)
    beside = search(world(against, first), LONG)
    assert "not beside" in rung(beside, "second").reason


def test_a_line_is_climbed_to_its_top() -> None:
    levels = {1: {"data": 0.9}, 2: {"data": 0.5}, 4: {"data": 0.25}, 8: {"data": 0.6}}
    there = ScriptedEvaluator(
        {"data": 0.1, "forward": 0.02},
        (Knob(name="num_workers", levels=levels, start_at=2, reach=1.0),),
        noise=QUIET,
        overlap=False,
    )
    found = search(there, LONG)
    assert found.recipe == Recipe((Change("num_workers", {"value": 4}),))
    assert not rung(found, "num_workers=2").kept
    assert rung(found, "num_workers=2").replaced
    assert not rung(found, "num_workers=4").replaced
    assert "by num_workers=4" in rung(found, "num_workers=2").reason
    assert rung(found, "num_workers=8").verdict == "slower"


def test_what_was_hidden_behind_the_loader_gets_a_second_chance() -> None:
    there = ScriptedEvaluator(
        {"data": 0.11, "forward": 0.05, "backward": 0.05},
        (
            Knob(name="loader", effect={"data": 0.3}, reach=1.0, prior=0.02),
            Knob(name="model", effect=HALF, prior=1.0),
        ),
        noise=QUIET,
    )
    found = search(there, LONG)
    assert set(found.recipe.names) == {"loader", "model"}
    assert next(each.verdict for each in found.ladder if each.name == "model") != "faster"


@pytest.mark.parametrize(
    ("data", "diagnosis", "times"), [(0.001, 60.0, 1), (0.001, 10.0, 2), (0.03, 60.0, 2)]
)
def test_a_diagnosis_that_takes_long_and_cannot_tell_anything_new_is_left_out(
    data: float, diagnosis: float, times: int
) -> None:
    parts = {"data": data, "forward": 0.04, "backward": 0.06}
    knobs = (Knob(name="first", effect=HALF), Knob(name="second", effect={"backward": 0.5}))
    there = ScriptedEvaluator(parts, knobs, noise=QUIET, diagnosis=diagnosis, overlap=False)
    found = search(there, SearchSettings(budget=1100.0))
    assert len(found.recipe) > 0
    diagnosed = [names for what, names in there.log if what == "diagnose"]
    assert (len(diagnosed) == 1) == (times == 1)


def test_what_runs_beside_the_step_can_come_out() -> None:
    alone = LoopProfile(step=0.1, shares={"forward": 0.04, "backward": 0.0599, "data": 0.0001})
    assert ranking.has_one_bottleneck(alone)
    assert not ranking.has_one_bottleneck(replace(alone, facts=frozenset({"workers"})))
    assert not ranking.has_one_bottleneck(replace(alone, enqueue=0.02))
    assert not ranking.has_one_bottleneck(replace(alone, shares={"forward": 0.05, "data": 0.05}))
    assert not ranking.has_one_bottleneck(LoopProfile())


def test_two_that_only_help_together_are_found() -> None:
    # Loading and computing take the same time side by side: neither shows alone.
    there = ScriptedEvaluator(
        {"data": 0.1, "forward": 0.05, "backward": 0.05},
        (Knob(name="loader", effect={"data": 0.5}, claims=("forward",)), Knob(name="model", effect=HALF)),
        noise=QUIET,
    )
    found = search(there, LONG)
    assert set(found.recipe.names) == {"loader", "model"}
    assert any("together with" in each.reason for each in found.ladder if each.kept)
    assert there.true_step(found.recipe) == pytest.approx(0.05)


def test_what_may_hide_each_other_is_raced_together_before_what_promises_little() -> None:
    hidden = (
        Knob(name="loader", effect={"data": 0.5}, claims=("forward",)),
        Knob(name="model", effect=HALF),
    )
    idle = [Knob(name=f"idle{number}", claims=SHARES, reach=0.1, prior=0.2) for number in range(8)]
    parts, workers = {"data": 0.1, "forward": 0.05, "backward": 0.05}, frozenset({"workers"})
    there = ScriptedEvaluator(parts, (*hidden, *idle), noise=QUIET, facts=workers)
    found = search(there, SearchSettings(budget=600.0))
    assert set(found.recipe.names) == {"loader", "model"}
    raced = [set(names) for what, names in there.log if what == "race"]
    first_idle = next(at for at, names in enumerate(raced) if any(name.startswith("idle") for name in names))
    assert {"loader", "model"} in raced[:first_idle]


def test_where_nothing_runs_beside_anything_nothing_is_hidden() -> None:
    there = ScriptedEvaluator(
        {"data": 0.001, "forward": 0.04, "backward": 0.06},
        (Knob(name="one", claims=("forward",)), Knob(name="two", claims=("backward",))),
        noise=QUIET,
        overlap=False,
    )
    search(there, SearchSettings(budget=600.0))
    raced = [set(names) for what, names in there.log if what == "race"]
    assert raced.index({"one"}) < 3
    assert raced.index({"two"}) < 3
    assert {"one", "two"} not in raced[:3]


def test_what_has_become_useless_is_dropped_at_the_end() -> None:
    # The second makes the first one superfluous: together they are no faster than the second alone.
    there = world(
        Knob(name="early", effect={"forward": 0.8, "backward": 0.8}, prior=0.9),
        Knob(name="late", effect={"forward": 0.4, "backward": 0.4}, prior=0.1),
    )
    there.together = (
        (frozenset({"early", "late"}), "forward", 1.25),
        (frozenset({"early", "late"}), "backward", 1.25),
    )
    found = search(there, LONG)
    assert found.recipe.names == ("late",)
    early = rung(found, "early")
    assert (early.kept, early.dropped) == (False, True)
    assert "dropped" in early.reason


def test_the_change_kept_last_is_left_out_only_where_its_race_left_doubt() -> None:
    first, large = Knob(name="first", effect=HALF, prior=0.9), {"forward": 0.7, "backward": 0.7}
    for effect, is_clear in ((large, True), ({"forward": 0.92, "backward": 0.92}, False)):
        there = world(first, Knob(name="last", effect=effect, prior=0.1))
        found = search(there, LONG)
        assert found.recipe.names == ("first", "last")
        assert ("no doubt" in rung(found, "last").reason) == is_clear
        assert "left out" in rung(found, "first").reason
    certified = search(world(first, Knob(name="last", effect=large, prior=0.1)), replace(LONG, certify=True))
    assert "no doubt" not in rung(certified, "last").reason


def test_where_all_that_was_kept_is_dropped_the_time_kept_back_is_searched_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A public script (karpathy/makemore): two were dropped at 225 of 360 s, and eight were never tried."""
    real, calls = together.leave_one_out, list[int]()

    def drop_all_at_first(state: SearchState) -> bool:
        calls.append(len(state.adopted))
        if len(calls) > 1:
            return real(state)
        state.revise("lucky", kept=False, dropped=True, reason="dropped")
        state.adopted.clear()
        state.recipe = Recipe()
        return True

    monkeypatch.setattr(together, "leave_one_out", drop_all_at_first)
    knobs = (Knob(name="lucky", effect=HALF, prior=0.9), Knob(name="other", effect={"data": 0.5}, prior=0.3))
    found = search(
        world(*knobs),
        SearchSettings(budget=80, reserve=lambda step: 0.6, late_reserve=lambda step: 0.1),
    )
    assert calls[0] == 1
    assert found.recipe.names == ("other",)


def test_no_time_is_set_aside_to_leave_out_what_is_obvious(monkeypatch: pytest.MonkeyPatch) -> None:
    """A change of at least 1.5x stays, and what it would take to leave it out goes to another race."""
    idle = [Knob(name=f"knob{number:02}", claims=("forward",), gives=ONE_OF) for number in range(60)]

    def tried() -> int:
        there = world(Knob(name="good", effect=HALF, prior=1.0), *idle)
        there.process_start = 5.0
        found = search(there, SearchSettings(budget=200.0))
        assert found.recipe.names == ("good",)
        return sum(each.verdict != "not tried" for each in found.ladder)

    obvious = tried()
    monkeypatch.setattr("laptime.tuning.search.state.OBVIOUS", math.inf)
    assert obvious > tried()


def test_time_that_a_faster_script_does_not_need_goes_to_the_search() -> None:
    knobs = [Knob(name="fast", effect={"forward": 0.2, "backward": 0.2}, prior=1.0, reach=0.9)]
    knobs += [Knob(name=f"knob{number:02}", effect={"forward": 0.95}, gives=ONE_OF) for number in range(30)]

    def tried(rules: SearchSettings) -> int:
        found = search(world(*knobs, noise=Noise()), rules)
        return sum(each.verdict != "not tried" for each in found.ladder)

    always = SearchSettings(budget=200.0, reserve=lambda step: 0.5)
    shrinking = SearchSettings(budget=200.0, reserve=lambda step: 0.5 * min(1.0, step / 0.1))
    assert tried(shrinking) > tried(always)


def test_reserved_time_is_spent_on_the_search_while_nothing_was_kept() -> None:
    idle = [Knob(name=f"knob{number:02}", claims=("forward",)) for number in range(60)]
    rules = SearchSettings(budget=200.0, reserve=lambda step: 0.4, late_reserve=lambda step: 0.1)

    def session(*knobs: Knob) -> tuple[ScriptedEvaluator, SearchResult]:
        there = world(*knobs)
        return there, search(there, rules)

    there, nothing = session(*idle)
    assert not nothing.recipe.names
    assert 0.8 * 200.0 < there.elapsed() <= 0.9 * 200.0  # the rest is too short for a race
    rest = next(each for each in nothing.ladder if each.verdict == "not tried")
    assert "the 20 s that" in rest.reason

    there, kept = session(Knob(name="good", effect=HALF, prior=1.0), *idle)
    assert kept.recipe.names == ("good",)
    assert there.elapsed() <= 0.62 * 200.0  # what measures its gain


def test_a_change_that_wins_in_the_reserved_time_is_kept_and_ends_the_search() -> None:
    idle = [Knob(name=f"knob{number:02}", claims=("forward",), gives=ONE_OF) for number in range(60)]
    there = world(*idle)
    rules = SearchSettings(budget=200.0, reserve=lambda step: 0.4, late_reserve=lambda step: 0.1)
    names = [each.name for each in search(there, rules).ladder if each.verdict != "not tried"]
    late = names[-2]  # raced in the reserved time
    knobs = [replace(knob, effect=HALF) if knob.name == late else knob for knob in idle]
    there = world(*knobs)
    found = search(there, rules)
    assert found.recipe.names == (late,)
    assert there.elapsed() <= 0.9 * 200.0 + 30.0
    assert [kind for kind, _ in there.log].count("diagnose") == 1


def test_a_change_that_another_one_needs_is_not_left_out() -> None:
    ground = Knob(name="ground", effect={"forward": 0.9}, gives=frozenset({"ground"}), prior=0.9)
    upper = Knob(name="upper", effect={"backward": 0.4}, needs=frozenset({"ground"}), prior=0.5)
    found = search(world(ground, upper), LONG)
    assert set(found.recipe.names) == {"ground", "upper"}
    assert "upper needs" in rung(found, "ground").reason


def test_the_budget_is_kept_and_the_rest_is_told() -> None:
    knobs = [Knob(name=f"knob{number:02}", effect={"forward": 0.95}, gives=ONE_OF) for number in range(30)]
    there = world(*knobs, noise=Noise())
    found = search(there, SearchSettings(budget=120.0))
    assert there.elapsed() < 120.0
    assert found.ended == "budget"
    rest = [each for each in found.ladder if each.verdict == "not tried"]
    assert rest
    assert all(each.reason.startswith("budget: ") for each in rest)
    assert {each.name for each in found.ladder} == {"identity", *(knob.name for knob in knobs)}


def test_a_lying_machine_is_told_and_the_margin_widened() -> None:
    there = world(Knob(name="idle", claims=("forward",)))
    there.leaning = -0.06  # every candidate seems 6 % faster
    found = search(there, LONG)
    control = rung(found, "identity")
    assert control.verdict == "faster"
    told = control.reason.rpartition("nothing below ")[2].partition("%")[0]
    assert float(told) > 5.5
    assert found.recipe == Recipe()


def test_memory_is_a_goal_of_its_own() -> None:
    lean = Knob(name="checkpoint", effect={"forward": 1.3}, memory=0.6)
    greedy = Knob(name="cache", effect={"forward": 0.5}, memory=1.2)
    found = search(world(lean, greedy), replace(LONG, goal="memory"))
    assert found.recipe.names == ("checkpoint",)
    assert (rung(found, "checkpoint").verdict, rung(found, "cache").verdict) == ("smaller", "larger")
    assert rung(found, "checkpoint").memory == pytest.approx(0.6)


def test_a_plan_runs_nothing_and_goes_in_the_order_of_trying() -> None:
    there = world(
        Knob(name="good", effect=HALF, start=30.0), Knob(name="tiny", effect={"data": 0.9}, reach=0.01)
    )
    loop_profile = there.diagnose(Recipe())
    before = there.elapsed()
    plans = plan_races(there, loop_profile)
    assert [candidate.change.name for candidate, _ in plans] == ["identity", "good"]
    assert plans[1][1] > 30.0
    assert there.elapsed() == before


def test_the_order_is_promise_over_cost_and_repeatable() -> None:
    there = landscape()
    usable = there.candidates(there.diagnose(Recipe()), Recipe()).usable
    names = [each.change.name for each in ranking.rank(usable)]
    assert names[0] == "identity"
    assert names.index("num_workers") < names.index("pin_memory")
    assert names == [each.change.name for each in ranking.rank(reversed(usable))]


def test_a_loud_start_is_put_right_by_the_control() -> None:
    class Startled(ScriptedEvaluator):
        def diagnose(self, recipe: Recipe) -> LoopProfile:
            return replace(super().diagnose(recipe), noise=0.3)

    there = Startled(STEP, (Knob(name="good", effect={"forward": 0.7}),), noise=QUIET, overlap=False)
    found = search(there, LONG)
    assert found.noise < 0.1
    assert found.recipe.names == ("good",)


def test_where_noise_hides_all_changes_nothing_is_said_to_be_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    class Crowded(ScriptedEvaluator):
        def diagnose(self, recipe: Recipe) -> LoopProfile:
            return replace(super().diagnose(recipe), noise=9.0)

    monkeypatch.setattr(ladder, "CONTROL_MOST", 0.0)  # a race of the control would take too long
    there = Crowded(STEP, (Knob(name="good", effect={"forward": 0.7}),), noise=QUIET, overlap=False)
    found = search(there, LONG)
    assert {rung.verdict for rung in found.ladder} == {"not tried"}
    assert "nothing was" in found.why_ended


def test_when_time_is_short_the_rest_is_raced_together() -> None:
    names = [f"knob{number:02}" for number in range(16)]
    there = world(
        *(Knob(name=name, effect={"forward": 0.94, "backward": 0.94}) for name in names), noise=Noise()
    )
    found = search(there, SearchSettings(budget=240.0))
    assert there.elapsed() < 240.0
    together = [each for each in found.ladder if "together with" in each.reason]
    assert len(together) >= 4
    assert all(each.kept or each.dropped for each in together)
    # One after the other would have been fewer.
    assert len(found.recipe) >= 8


def test_what_takes_long_to_start_is_not_raced_with_the_rest_when_time_is_short() -> None:
    """A slower compiled step would hide what the others gain together."""
    names = [f"knob{number:02}" for number in range(16)]
    knobs = [Knob(name=name, effect={"forward": 0.94, "backward": 0.94}) for name in names]
    compiled = Knob(name="compiled", effect={"forward": 1.9, "backward": 1.9}, start=40.0, prior=0.05)
    there = world(*knobs, compiled, noise=Noise())
    found = search(there, SearchSettings(budget=300.0))
    assert "together" not in rung(found, "compiled").reason
    assert len([each for each in found.ladder if "together with" in each.reason]) >= 4
    assert len(found.recipe) >= 8


def test_of_two_that_take_long_to_start_neither_is_raced_with_the_rest_when_time_is_short() -> None:
    names = [f"knob{number:02}" for number in range(16)]
    knobs = [Knob(name=name, effect={"forward": 0.94, "backward": 0.94}) for name in names]
    slow = [
        Knob(name=f"compiled{start:.0f}", effect={"forward": 1.9, "backward": 1.9}, start=start, prior=0.05)
        for start in (40.0, 45.0)
    ]
    there = world(*knobs, *slow, noise=Noise())
    found = search(there, SearchSettings(budget=300.0))
    assert not any("together" in rung(found, knob.name).reason for knob in slow)
    assert len([each for each in found.ladder if "together with" in each.reason]) >= 4
    assert len(found.recipe) >= 8


class Recommending(ScriptedEvaluator):
    """Where something is kept, another number of threads is recommended."""

    def candidates(self, loop_profile: LoopProfile, recipe: Recipe) -> CandidateSet:
        proposed: CandidateSet = super().candidates(loop_profile, recipe)
        if not len(recipe):
            return proposed
        other = Change("threads", {"value": 1})
        usable = [
            replace(one, change=other) if one.change.name == "threads" and "threads" not in recipe else one
            for one in proposed.usable
        ]
        return replace(proposed, usable=tuple(usable))


def test_no_other_option_of_a_change_that_lost_is_raced_with_the_rest() -> None:
    """Four threads were slower: one is not tried beside what nobody has raced."""
    names = [f"knob{number:02}" for number in range(16)]
    knobs = [Knob(name=name, effect={"forward": 0.94, "backward": 0.94}) for name in names]
    levels = {value: {"forward": 1.5, "backward": 1.5} for value in (1, 2, 4)}
    good = Knob(name="good", effect=HALF, prior=1.0)
    threads = Knob(name="threads", levels=levels, start_at=4, claims=PARTS, prior=2.0)
    there = Recommending(STEP, (good, *knobs, threads), noise=Noise(), overlap=False)
    found = search(there, SearchSettings(budget=240.0))
    assert (rung(found, "threads=4").verdict, rung(found, "good").kept) == ("slower", True)
    together = [names for kind, names in there.log if kind == "race" and len(names) > 4]
    assert together
    assert not any("threads" in names for names in together)


class Costly(ScriptedEvaluator):
    """One change needs processes of its own for each round."""

    def candidates(self, loop_profile: LoopProfile, recipe: Recipe) -> CandidateSet:
        proposed: CandidateSet = super().candidates(loop_profile, recipe)
        usable = [
            replace(one, cost=20 * one.cost) if one.change.name == "pages" else one for one in proposed.usable
        ]
        return replace(proposed, usable=tuple(usable))


def test_what_takes_all_the_time_that_is_left_does_not_keep_the_others_from_racing_together() -> None:
    names = [f"knob{number:02}" for number in range(16)]
    effect = {"forward": 0.94, "backward": 0.94}
    knobs = [Knob(name=name, effect=effect) for name in (*names, "pages")]
    there = Costly(STEP, tuple(knobs), noise=Noise(), overlap=False)
    found = search(there, SearchSettings(budget=240.0))
    assert rung(found, "pages").verdict == "not tried"
    assert len([each for each in found.ladder if "together with" in each.reason]) >= 4
    assert len(found.recipe) >= 8


def test_what_may_be_much_slower_is_not_raced_with_others_before_it_was_raced_alone() -> None:
    names = [f"knob{number:02}" for number in range(16)]
    knobs = [Knob(name=name, effect={"forward": 0.94, "backward": 0.94}) for name in names]
    slower = {"forward": 2.0, "backward": 2.0}
    there = world(*knobs, Knob(name="threads", effect=slower, prior=0.05, risky=True), noise=Noise())
    found = search(there, SearchSettings(budget=240.0))
    assert "together" not in rung(found, "threads").reason
    assert len([each for each in found.ladder if "together with" in each.reason]) >= 4
    assert len(found.recipe) >= 8
