"""SLOs and memory: judged by intervals, kept by what is chosen, told where nothing keeps them."""

from __future__ import annotations

from contextlib import nullcontext
from itertools import cycle, islice
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from fixtures import tunings
from laptime.analysis import tuned
from laptime.analysis.promises import promise_of_calls as promise
from laptime.kit.errors import ExitCode, UsageError
from laptime.records.run import Run
from laptime.records.tuning import Gate, GateCheck, TunedModel
from laptime.tuning.gates.invariants import word
from laptime.tuning.inference import final_set as of_points
from laptime.tuning.inference.evaluator import ModelEvaluator
from laptime.tuning.inference.request import ModelRequest
from laptime.tuning.inference.setups import Limits, distance
from laptime.tuning.inference.sides import Timing
from laptime.tuning.optimization import Change, Recipe
from laptime.tuning.time_accounting import TimeAccounting

SLO = Limits(slo=promise("20ms@p99"))
GATE = Gate(word="passed", numerics="exact", steps=4)


def calls(median: float, number: int, *, tail: float = 0.1, seed: int = 0) -> list[float]:
    """Lognormal durations."""
    draw = np.random.default_rng(seed).standard_normal(number)
    return list(median * np.exp(tail * draw))


def p99(median: float, tail: float = 0.1) -> float:
    return float(median * np.exp(2.3263 * tail))


def test_too_few_calls_are_undecided_however_fast_they_are() -> None:
    (check,) = SLO.checks(calls(0.001, 200), 0)
    assert check.outcome == "undecided"
    assert check.sentence == "p99 needs 368 independent calls, 200 were timed"


@pytest.mark.parametrize(
    ("median", "outcome"), [(0.010, "kept"), (0.030, "broken"), (0.02 / np.exp(0.23263), "undecided")]
)
def test_the_interval_decides_and_not_the_point(median: float, outcome: str) -> None:
    (check,) = SLO.checks(calls(median, 1000), 0)
    assert check.outcome == outcome, check


def test_an_slo_that_is_broken_is_hardly_ever_called_kept() -> None:
    """The true p99 lies 1 % beyond the limit: the upper end is within it in at most 2.5 % of all cases."""
    limits = Limits(slo=promise(f"{p99(0.01) / 1.01:.8f}s@p99"))
    kept = [word(limits.checks(calls(0.01, 500, seed=seed), 0)) == "kept" for seed in range(300)]
    assert sum(kept) <= 0.05 * len(kept)


@pytest.mark.parametrize(("median", "outcome"), [(0.001, "kept"), (0.100, "broken"), (0.016, "undecided")])
def test_short_calls_of_processes_that_differ_are_decided_where_the_limit_is_far(
    median: float, outcome: str
) -> None:
    levels = np.repeat(np.exp([-0.02, 0.01, 0.03, 0.0, -0.01, 0.02]), 2000)
    (check,) = SLO.checks(list(levels * calls(median, len(levels))), 0)
    assert check.outcome == outcome, check


def test_memory_is_held_against_the_peak() -> None:
    limits = Limits(memory=2_000_000_000)
    assert word(limits.checks([], 1_900_000_000)) == "kept"
    (check,) = limits.checks([], 3_000_000_000)
    assert (check.outcome, distance([check])) == ("broken", 1.5)
    assert not Limits()


def test_an_slo_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match="not a promise"):
        ModelRequest(target="x", slo="20ms@p42").limits  # noqa: B018
    for other in ("ttft=300ms@p95", "20ms@p99,10ms@median"):
        with pytest.raises(UsageError, match="single limit"):
            ModelRequest(target="x", slo=other).limits  # noqa: B018


def evaluator(truth: dict[Recipe, tuple[float, float, int]], **options: Any) -> ModelEvaluator:
    made: Any = object.__new__(ModelEvaluator)
    made.request = ModelRequest(target="x", goal="latency", **options)
    made.limits, made.accounting = made.request.limits, TimeAccounting()
    made.timings, made.ratios = {}, {}
    made.surveyed = {"batch": 1}
    clock = iter(range(10**6))
    made.elapsed = lambda: float(next(clock))
    for recipe, (median, tail, peak) in truth.items():
        made.timings[recipe] = Timing(calls(median, 1000, tail=tail), peak)
    made.sameness = lambda recipe: GATE
    return made


AS_IS, FAST = Recipe(), Recipe((Change("onnxruntime"),))
STEADY = Recipe((Change("threads", {"value": 1}),))
MB = 1_000_000


def test_a_change_that_breaks_what_was_kept_is_refused() -> None:
    # Faster in the middle, with a tail beyond the limit.
    made = evaluator({AS_IS: (0.015, 0.02, MB), FAST: (0.010, 0.5, MB)}, slo="20ms@p99")
    gate = made.gate(AS_IS, FAST, "exact")
    assert gate.word == "failed"
    assert "p99 of 1,000" in gate.reason
    # Where nothing keeps the limit yet, it is a step on the way.
    made = evaluator({AS_IS: (0.030, 0.02, MB), FAST: (0.010, 0.5, MB)}, slo="20ms@p99")
    assert made.gate(AS_IS, FAST, "exact").word == "passed"


def test_what_is_open_is_timed_further() -> None:
    made: Any = evaluator({AS_IS: (0.010, 0.1, MB)}, slo="20ms@p99")
    made.timings[AS_IS] = Timing(calls(0.010, 20), MB)
    durations = cycle(calls(0.010, 2000))
    arm = SimpleNamespace(seconds=lambda number: list(islice(durations, number)), peak=MB, call=0.010)
    made.arm = lambda recipe: nullcontext(arm)
    assert word(made.limits.checks(made.timings[AS_IS].seconds, MB)) == "undecided"
    assert word(made.limit_checks(AS_IS)) == "kept"
    assert len(made.timings[AS_IS].seconds) >= 368


def test_sets_are_as_fast_as_their_races_say_whatever_the_machine_did_meanwhile() -> None:
    """OpenVINO beat ONNX Runtime 1.9 times in a race that the machine was slower in."""
    slower = Recipe((Change("openvino"),))
    made = evaluator({AS_IS: (0.018, 0.0, MB), FAST: (0.012, 0.0, MB), slower: (0.013, 0.0, MB)})
    made.ratios = {(AS_IS, FAST): [0.6, 0.7, 0.65], (FAST, slower): [1 / 1.9] * 3, (AS_IS, AS_IS): [1.0] * 3}
    shown = of_points.points(made, slower)
    assert [each.label for each in shown] == ["openvino", "onnxruntime", "as it is"]
    first, second, last = (each.latency for each in shown)
    assert (second / first, last / second) == (pytest.approx(1.9), pytest.approx(1 / 0.65))
    assert [each.throughput * each.latency for each in shown] == pytest.approx([1, 1, 1])


def test_another_measured_set_that_keeps_the_limit_is_taken() -> None:
    truth = {AS_IS: (0.020, 0.3, MB), FAST: (0.012, 0.5, MB), STEADY: (0.014, 0.02, MB)}
    made = evaluator(truth, slo="20ms@p99")
    assert of_points.within_limits(made, FAST) == STEADY


def test_where_nothing_keeps_it_the_nearest_is_taken() -> None:
    truth = {AS_IS: (0.100, 0.05, MB), FAST: (0.060, 0.5, MB), STEADY: (0.065, 0.02, MB)}
    made = evaluator(truth, slo="20ms@p99")
    assert of_points.within_limits(made, FAST) == STEADY
    shown = of_points.points(made, STEADY)
    assert [each.label for each in shown] == ["onnxruntime", "threads=1", "as it is"]
    assert [each.chosen for each in shown] == [False, True, False]
    assert {each.limits for each in shown} == {"broken"}
    assert [each.front for each in shown] == [True, True, False]


def test_memory_as_a_limit_and_as_the_goal() -> None:
    truth = {AS_IS: (0.02, 0.1, 900 * MB), FAST: (0.01, 0.1, 1200 * MB), STEADY: (0.015, 0.1, 800 * MB)}
    assert of_points.within_limits(evaluator(truth, max_memory=1000 * MB), FAST) == STEADY


def session(check: GateCheck, *, recipe: bool = True) -> Run:
    run = tunings.model()
    assert run.tuning is not None
    kept = run.tuning.recipe if recipe else []
    model = TunedModel(limits=[check])
    return structs.replace(run, tuning=structs.replace(run.tuning, recipe=kept, model=model))


@pytest.mark.parametrize(
    ("outcome", "recipe", "code"),
    [
        ("kept", True, ExitCode.OK),
        ("broken", True, ExitCode.NO),
        ("broken", False, ExitCode.NO),
        ("undecided", True, ExitCode.UNDECIDED),
        ("kept", False, ExitCode.NOTHING),
    ],
)
def test_limits_decide_how_a_session_ends(outcome: Any, recipe: bool, code: ExitCode) -> None:
    run = session(GateCheck(name="slo", outcome=outcome, sentence="p99"), recipe=recipe)
    assert tuned.exit_code(run) == code
