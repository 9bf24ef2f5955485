"""What earlier sessions have shown orders the candidates of the next one, and decides nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fixtures.scripted_evaluator import Knob, Noise, ScriptedEvaluator
from laptime.records.tuning import Gate, Rung
from laptime.tuning.optimization import Change
from laptime.tuning.search.evaluator import Candidate
from laptime.tuning.search.ladder import SearchResult, plan_races, search
from laptime.tuning.search.settings import EarlierEffect, SearchSettings, effects

QUIET = Noise(block=0.005, drift=0.002, spike=0.0, flip=0.0, process=0.001)
STEP = {"data": 10e-3, "forward": 30e-3, "backward": 50e-3, "optimizer": 10e-3}
LONG = SearchSettings(budget=20_000.0)
WON = Rung(
    name="good",
    label="good",
    verdict="faster",
    speedup=1.7,
    ci95=(1.6, 1.8),
    gate=Gate(word="passed"),
    kept=True,
)
KNOBS = (
    Knob(name="good", effect={"forward": 0.3}, prior=0.1),
    Knob(name="promising", claims=("forward", "backward"), reach=1.0, prior=0.9),
)


def world(*knobs: Knob) -> ScriptedEvaluator:
    return ScriptedEvaluator(STEP, knobs, 0, QUIET, overlap=False)


def labels(found: SearchResult) -> list[str]:
    return [rung.label for rung in found.ladder]


def known(*rungs: Rung, run: str = "RUN") -> SearchSettings:
    return replace(LONG, earlier_effects=effects([(run, rungs)]))


def test_what_won_goes_before_the_control_and_says_why() -> None:
    assert labels(search(world(*KNOBS), LONG)) == ["identity", "promising", "good"]
    found = search(world(*KNOBS), known(WON))
    assert labels(found) == ["good", "identity", "promising"]
    assert found.ladder[0].reason.startswith("first, because good won 1.7x in RUN: 1.")
    assert found.recipe.names == ("good",)
    assert found.ladder[0].speedup == pytest.approx(
        1 / 0.79, rel=0.05
    )  # what was raced now, not what was known


def test_a_certified_session_begins_with_the_control() -> None:
    found = search(world(*KNOBS), replace(known(WON), certify=True))
    assert labels(found)[:2] == ["identity", "good"]


@pytest.mark.parametrize(
    ("rung", "why"),
    [
        (
            Rung(name="promising", label="promising", verdict="slower", speedup=0.6, ci95=(0.55, 0.65)),
            "came out at 0.6x",
        ),
        (Rung(name="promising", label="promising", verdict="failed"), "promising failed in RUN"),
        (
            Rung(
                name="promising",
                label="promising",
                verdict="faster",
                speedup=1.5,
                ci95=(1.4, 1.6),
                gate=Gate(word="failed"),
            ),
            "the gate of promising failed",
        ),
    ],
)
def test_what_lost_goes_last_and_is_tried(rung: Rung, why: str) -> None:
    found = search(world(*KNOBS), known(rung))
    assert labels(found) == ["identity", "good", "promising"]
    assert found.ladder[-1].reason.startswith("last, because ")
    assert why in found.ladder[-1].reason
    assert found.ladder[-1].rounds > 0


@pytest.mark.parametrize(
    "rung",
    [
        Rung(name="good", label="good", verdict="unclear", speedup=1.6, ci95=(0.5, 5.1)),
        Rung(name="good", label="good", verdict="same", speedup=1.0, ci95=(0.99, 1.01)),
        Rung(name="good", label="good", verdict="not tried"),
        Rung(name="good", label="good", verdict="faster", speedup=1.7, ci95=(1.6, 1.8), dropped=True),
    ],
)
def test_what_is_not_clear_changes_nothing(rung: Rung) -> None:
    assert labels(search(world(*KNOBS), known(rung))) == labels(search(world(*KNOBS), LONG))


def test_the_expected_gain_is_shrunk_and_sessions_add_up() -> None:
    one = effects([("A", [WON])])["good"]
    two = effects([("B", [WON]), ("A", [WON])])["good"]
    assert 0.2 < one.saved < two.saved < 1 - 1 / 1.7
    assert "in B" in two.sentence
    small = Rung(name="good", label="good", verdict="faster", speedup=1.08, ci95=(1.04, 1.12))
    assert effects([("A", [small])])["good"].order == 0


def test_the_first_option_that_won_speaks_for_a_line() -> None:
    options = [
        Rung(name="num_workers", label="num_workers=8", verdict="slower", speedup=0.5, ci95=(0.4, 0.6)),
        won("num_workers=2", 1.9),
        won("num_workers=4", 1.05),  # over two, not over none
    ]
    effect = effects([("A", options)])["num_workers"]
    assert effect.order == -1
    assert "num_workers=2 won 1.9x" in effect.sentence


def won(label: str, speedup: float) -> Rung:
    name, ci95 = label.partition("=")[0], (0.98 * speedup, 1.02 * speedup)
    gate = Gate(word="passed")
    return Rung(name=name, label=label, verdict="faster", speedup=speedup, ci95=ci95, gate=gate)


def test_what_won_on_top_of_others_follows_them() -> None:
    ladder = [won("num_workers=2", 1.3), won("bf16", 1.9)]
    found = effects([("A", ladder)])
    assert found["num_workers"].order < found["bf16"].order < 0


def test_the_share_of_the_bound_follows_from_what_was_saved() -> None:
    candidate = Candidate(change=Change("good"), bound=0.04, prior=0.1)
    placed = EarlierEffect(-1, 0.2, "first").apply(candidate, 0.1)
    assert (placed.prior, placed.order, placed.bound) == (pytest.approx(0.5), -1, 0.04)
    assert EarlierEffect(0, 0.2).apply(candidate, 0.1) is candidate


def test_a_plan_has_the_same_order() -> None:
    there = world(*KNOBS)
    profile = there.diagnose(search(world(), LONG).recipe)
    plan = [one.change.name for one, _ in plan_races(there, profile, known(WON))]
    assert plan == ["good", "identity", "promising"]  # a winner is raced before the control
