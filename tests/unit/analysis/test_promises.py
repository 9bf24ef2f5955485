"""One SLO, one set of numbers, one judgement, whoever asks."""

from __future__ import annotations

import numpy as np
import pytest

from laptime.analysis.load import level_stats
from laptime.analysis.promises import (
    Promise,
    calls_judged,
    level_judged,
    promise_of_calls,
    promises,
    text,
)
from laptime.analysis.stat import Stat
from laptime.kit.errors import UsageError
from laptime.records.case import Case
from laptime.records.details import Details
from laptime.records.load import Level
from laptime.records.quantity import Interval, Quantity
from laptime.records.requests import Answer, Requests
from laptime.tuning.inference.setups import Limits


def stat(value: float, ends: Interval, regime: str, quantile: str) -> Stat:
    quantity = Quantity.of(value, ends, 100, "s")
    return Stat(tag=f"latency/{regime}/{quantile}", title="x", unit="s", quantity=quantity, n=100)


def of_load(value: float, ends: Interval, quantile: str) -> str:
    facts = Level(kind="open", rate=4.0, window=10.0, scheduled=40, answered=40)
    rows = [Answer(n, n / 4, n / 4, n / 4, n / 4, n / 4 + 0.04) for n in range(40)]
    requests = Requests.of(rows, facts.regime)
    level = level_stats(Case(key="x", target="x", axes={}, requests=requests, details=Details(load=facts)))
    assert level is not None
    level = level._replace(latency={quantile: stat(value, ends, "paced", quantile)})
    return level_judged(promises(f"latency=50ms@{quantile}"), level).word


@pytest.mark.parametrize(
    ("value", "ends", "word"),
    [
        (0.040, (0.030, 0.060), "undecided"),
        (0.040, (0.030, 0.050), "kept"),
        (0.060, (0.0501, 0.070), "broken"),
        (0.050, (0.050, 0.070), "undecided"),
        (0.040, None, "undecided"),
        (0.060, None, "undecided"),
    ],
)
@pytest.mark.parametrize("quantile", ["p99", "median"])
def test_cost_and_load_say_the_same_of_one_number(
    value: float, ends: Interval, word: str, quantile: str
) -> None:
    stats = {f"latency/isolated/{quantile}": stat(value, ends, "isolated", quantile)}
    assert calls_judged(promises(f"50ms@{quantile}"), stats, "isolated").word == word
    assert of_load(value, ends, quantile) == word


def test_a_tuned_model_is_judged_in_the_same_words() -> None:
    limits = Limits(slo=promise_of_calls("50ms@p99"))
    for calls, word in (
        ([0.040] * 592 + [0.060] * 8, "undecided"),
        ([0.040] * 600, "kept"),
        ([0.060] * 600, "broken"),
        ([0.040] * 20, "undecided"),
    ):
        dice = np.random.default_rng(1)
        (check,) = limits.checks(list(dice.permutation(calls)), 0)
        assert check.outcome == word, check.sentence


def test_of_several_promises_one_that_is_surely_broken_breaks_all() -> None:
    stats = {
        "latency/paced/p99": stat(0.040, (0.030, 0.060), "paced", "p99"),
        "latency/paced/median": stat(0.030, (0.029, 0.031), "paced", "median"),
    }
    open_ = calls_judged(promises("50ms@p99,40ms@median"), stats, "paced")
    assert (open_.word, open_.value) == ("undecided", 0.040)
    assert "reaches 60" in open_.sentence
    assert calls_judged(promises("50ms@p99,20ms@median"), stats, "paced").word == "broken"
    kept = calls_judged(promises("40ms@median,70ms@p99"), stats, "paced")
    assert (kept.word, kept.value) == ("kept", 0.030)


def test_what_was_not_measured_is_undecided() -> None:
    assert "not measured" in calls_judged(promises("ttft=300ms@p95"), {}, "paced").sentence


@pytest.mark.parametrize(
    ("typed", "wanted", "again"),
    [
        ("50ms", [Promise(0.05)], "latency=50ms@p99"),
        ("latency<=2s@p50", [Promise(2.0, "median")], "latency=2s@median"),
        (
            "ttft=300ms@p95, itl=40ms@p90",
            [Promise(0.3, "p95", "ttft"), Promise(0.04, "p90", "itl")],
            "ttft=300ms@p95,itl=40ms@p90",
        ),
        ("", [], ""),
    ],
)
def test_what_is_typed_is_read_and_written_again(typed: str, wanted: list[Promise], again: str) -> None:
    assert promises(typed) == wanted
    assert text(wanted) == again
    assert promises(text(wanted)) == wanted


@pytest.mark.parametrize("typed", ["50", "50ms@p42", "speed=50ms", "50ms@", "@p99", "latency", "0ms"])
def test_what_is_not_a_promise_is_refused(typed: str) -> None:
    if typed == "50":
        assert promises(typed) == [Promise(50.0)]  # a bare number is seconds
        return
    with pytest.raises(UsageError):
        promises(typed)
