"""`--batch auto` on a machine whose largest batch and knee are known."""

from __future__ import annotations

from collections import Counter

import pytest

from fixtures.runs import environment
from laptime.probes import machine as probe
from laptime.records.check import Finding
from laptime.records.plan import BenchRequest
from laptime.records.run import Run
from laptime.testing.machine import ScriptedMachine
from laptime.verbs.bench import batch_search, bench

TARGET = "null:noop"


@pytest.fixture(autouse=True)
def _known_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "environment", environment)
    monkeypatch.setattr(batch_search, "available_bytes", lambda: 10**9)


def searched(seed: int, *, fits: int, fixed: float, budget: float | None = None, **conditions: float) -> Run:
    """One item takes 1 ms, every call `fixed` more."""
    machine = ScriptedMachine({TARGET: 0.001}, fits=fits, fixed=fixed, seed=seed, **conditions)  # type: ignore[arg-type]
    request = BenchRequest(targets=[TARGET], batch="auto", budget=budget)
    return bench(request, open_session=machine.open_session, clock=machine)


def finding(run: Run, kind: str) -> Finding:
    return next(each for each in run.findings if each.kind == kind)


def knee_of(*, fits: int, fixed: float) -> int:
    """The smallest of the sizes measured that is within 3 % of the best, as it truly is."""
    sizes = [*(2**i for i in range(20) if 2**i <= fits), fits]
    rate = {size: size / (fixed + 0.001 * size) for size in sizes}
    return min(size for size in sizes if rate[size] >= 0.97 * max(rate.values()))


@pytest.mark.parametrize("neighbour", [0.0, 0.25])
def test_the_largest_that_fits_is_in_the_curve(neighbour: float) -> None:
    for seed in range(10):
        run = searched(seed, fits=37, fixed=0.02, neighbour=neighbour, drift=0.15)
        assert [case.batch for case in run.cases] == [1, 2, 4, 8, 16, 32, 37]
        assert finding(run, "batch/largest").evidence["largest"] == 37


@pytest.mark.parametrize("budget", [120.0, 300.0])
def test_a_budget_is_used_and_not_exceeded(budget: float) -> None:
    run = searched(1, fits=300, fixed=0.02, budget=budget, noise=0.2)
    assert 0.85 * budget < run.seconds < 1.25 * budget
    assert run.plan["budget"].value == budget


CURVES = {"early": (400, 0.0005), "middle": (400, 0.002), "rises to the largest": (37, 0.02)}
STILL = {"noise": 0.003, "tail": 0.0, "drift": 0.0}
CONDITIONS = {"still": STILL, "quiet": {}, "neighbour": {"neighbour": 0.25}, "drift": {"drift": 0.15}}


@pytest.mark.slow
@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("curve", CURVES)
def test_a_knee_that_is_told_is_the_knee(curve: str, condition: str) -> None:
    """And one that is not is among the sizes that are named instead."""
    fits, fixed = CURVES[curve]
    words: Counter[str] = Counter()
    for seed in range(10):
        run = searched(seed, fits=fits, fixed=fixed, **CONDITIONS[condition])
        found = finding(run, "batch/knee").evidence
        truth = knee_of(fits=found["largest"], fixed=fixed)
        words["open" if found["knee"] is None else "right" if found["knee"] == truth else "wrong"] += 1
        words["covered"] += truth in found["candidates"]
        words["narrow"] += len(found["candidates"]) <= 3
    assert words["wrong"] == 0, words
    assert words["covered"] >= 9, words
    assert condition != "still" or words["narrow"] >= 9, words
    assert (condition, curve) != ("still", "rises to the largest") or words["right"] >= 9, words
