from __future__ import annotations

from typing import Any

import pytest

from laptime.kit.errors import TargetError, UsageError
from laptime.records.plan import BenchRequest
from laptime.verbs.bench.planning import MANY, PRESETS, Plan, axes_of, plan, plan_processes

NOOP = "null:noop"


def planned(*targets: str, **more: Any) -> Plan:
    return plan(BenchRequest(targets=list(targets or (NOOP,)), **more))


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_gives_precision_time_and_processes(preset: Any) -> None:
    one = planned(batch=[1, 8], preset=preset)
    wanted = PRESETS[preset]
    assert one.precision == wanted.precision
    assert one.processes == wanted.processes
    assert one.budget == pytest.approx(wanted.seconds * 2 * wanted.processes)
    two = planned(NOOP, "null:nan", preset=preset)
    assert two.processes == wanted.compared
    assert two.budget == pytest.approx(wanted.seconds * 2 * wanted.compared)


def processes(done: int, **more: Any) -> tuple[int, float]:
    """Processes of a comparison of two after `done` of them, and the seconds that one measures."""
    asked = {"is_clear": False, "may_add": True, "fewest": 0.1, "left": 60.0, "loading": 3.0, **more}
    found = plan_processes(planned(NOOP, "null:nan"), done, **asked)
    return found.processes, found.budget / found.processes


def test_many_short_processes_follow_the_first_of_a_comparison() -> None:
    assert processes(1) == (1 + 12, 2.0)  # as many as fit into the time, with what they take to load
    assert processes(1, left=1000.0) == (MANY, 2.0)
    assert processes(1, fewest=5.0) == (1 + 7, 5.0)  # long calls
    assert processes(1, left=2.0) == (3, 8.0)  # no time
    assert processes(1, left=None) == (1 + 8, 2.0)  # 16 of 24 s of the budget that was given are left
    assert processes(1, may_add=False) == (3, 8.0)
    assert processes(2) == (3, 8.0)


def test_a_comparison_that_is_clear_ends_with_seven_processes() -> None:
    many = planned(NOOP, "null:nan")._replace(processes=MANY, budget=2.0 * MANY)
    asked: dict[str, Any] = {"may_add": True, "fewest": 0.1, "left": 60.0, "loading": 3.0}
    ends = {done: plan_processes(many, done, is_clear=True, **asked) for done in (5, 6, 9, MANY)}
    assert {done: found.processes for done, found in ends.items()} == {5: MANY, 6: 7, 9: 10, MANY: MANY}
    assert ends[6].budget == pytest.approx(2.0 * 7)
    assert plan_processes(many, 9, is_clear=False, **asked).processes == MANY


def test_what_was_asked_for_wins_over_the_preset_and_says_so() -> None:
    found = planned(
        precision=0.003,
        budget=7.0,
        processes=4,
        preset="quick",
        origins={"budget": "flag", "precision": "argument"},
    )
    assert (found.precision, found.budget, found.processes) == (0.003, 7.0, 4)
    assert found.settings["budget"].origin == "flag"
    assert found.settings["precision"].origin == "argument"
    assert found.settings["batch"].origin == "default"
    assert planned().settings["budget"].origin == "preset"


def test_every_target_and_value_is_a_variant() -> None:
    found = planned(NOOP, "null:nan", dtype=["float32", "bfloat16"], threads=[1, 2])
    assert [(v.target, v.dtype, v.threads) for v in found.variants] == [
        (target, dtype, threads)
        for target in (NOOP, "null:nan")
        for dtype in ("float32", "bfloat16")
        for threads in (1, 2)
    ]


def test_a_target_against_itself_has_two_keys() -> None:
    found = planned(NOOP, NOOP, NOOP)
    axes = [axes_of(variant, 1, device="cpu", held={}) for variant in found.variants]
    assert [each.get("again") for each in axes] == [None, 2, 3]


def test_an_object_of_this_process_is_measured_in_one_process() -> None:
    found = plan(BenchRequest(targets=["my model"], preset="strict"), in_memory=True)
    assert found.processes == 1
    assert found.subjects[0].target == "my model"


def test_a_search_leaves_the_batches_open() -> None:
    assert planned(batch="auto").batches == []


@pytest.mark.parametrize(
    ("wish", "what"),
    [
        ({"batch": [0]}, "batch 0 is impossible"),
        ({"batch": [8, -2]}, "batch -2 is impossible"),
        ({"batch": []}, "batch 0 is impossible"),
        ({"dtype": ["flaot32"]}, "no dtype is called 'flaot32'"),
        ({"regimes": ["isolatd"]}, "no regime is called 'isolatd'"),
        ({"regimes": ["paced"]}, "the paced regime needs a rate"),
        ({"precision": 0.0}, "--precision 0 is impossible"),
        ({"precision": 1.5}, "--precision 1.5 is impossible"),
        ({"precision": float("nan")}, "--precision nan"),
        ({"budget": -1.0}, "--budget -1 is impossible"),
        ({"budget": float("inf")}, "--budget inf"),
        ({"rate": 0.0}, "--rate 0 is impossible"),
        ({"rate": float("nan")}, "--rate nan"),
        ({"timeout": 0.0}, "--timeout 0 is impossible"),
        ({"timeout": float("nan")}, "--timeout nan"),
        ({"processes": 0}, "--processes 0 is impossible"),
        ({"threads": [2, 0]}, "--threads 0 is impossible"),
    ],
)
def test_a_value_that_cannot_be_is_refused_in_three_lines(wish: dict[str, Any], what: str) -> None:
    with pytest.raises(UsageError) as caught:
        planned(**wish)
    assert caught.value.what.startswith(what)
    assert caught.value.why
    assert caught.value.next


def test_no_target_is_refused() -> None:
    with pytest.raises(UsageError, match="to measure"):
        plan(BenchRequest(targets=[]))


def test_an_unknown_target_is_refused_before_anything_is_measured() -> None:
    with pytest.raises(TargetError):
        planned(NOOP, "torchvison:resnet18")
