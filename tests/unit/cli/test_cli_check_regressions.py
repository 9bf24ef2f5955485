"""check --against: what is asked is checked, or is an error, or is undecided; never silently kept."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from fixtures import runs
from laptime.records.case import Case
from laptime.records.run import Run
from laptime.records.series import Metric, Series
from laptime.store import files
from laptime.verbs.check import Budget, Rules, of_pairs, of_revision

Laptime = Callable[..., Any]


def stored(number: int, *cases: Case, name: str = "") -> Run:
    bare = structs.replace(runs.environment(), virtual="")
    run = runs.run(*cases, id=f"20260801-00000{number}-000-a", name=name, environment=bare)
    files.save(run)
    return run


def timed(memory: float = 412.0, level: float = 0.0263, target: str = runs.TARGET) -> Case:
    return runs.case(runs.timings(level, n=160, spread=0.003), *runs.facts(peak_memory=memory), target=target)


def reported(
    *values: float, name: str = "exp_per_second", better: str = "higher", target: str = "b.Tiny.one"
) -> Case:
    """A case that a benchmark class reported itself: one value a trial, no timed call."""
    metric = Metric(tag=f"reported/{name}", unit="1", title=name, better=better)  # type: ignore[arg-type]
    series = Series(metric=metric, samples=[*values], process=[*range(len(values))])
    return Case(key=target, target=target, axes={}, series=[series])


def rules(text: str) -> None:
    Path("laptime.toml").write_text(text)


def checked(laptime: Laptime, *words: str) -> tuple[int, dict[tuple[str, str], str]]:
    """The exit code, and every verdict by case and metric."""
    ended = laptime("check", "last", "--against", "baseline", "--json", *words)
    verdicts = json.loads(ended.out)["verdicts"]
    return ended.code, {(each["case"], each["metric"]): each["word"] for each in verdicts}


MEMORY = "[[budget]]\nmetric = 'memory/host/peak'\nregression = {!r}\n"


@pytest.mark.parametrize(
    ("memory", "allowed", "word", "code"),
    [(412, "99%", "broken", 1), (300, "99%", "kept", 3), (163, "5%", "kept", 3)],
)
def test_a_regression_of_memory_is_one_of_memory(
    laptime: Laptime, memory: float, allowed: str, word: str, code: int
) -> None:
    """The latency of runs apart in time stays undecided beside it."""
    stored(1, timed(163.0), name="baseline")
    stored(2, timed(memory))
    rules(MEMORY.format(allowed))
    ended, words = checked(laptime)
    key = timed().key
    assert words == {(key, "memory/host/peak"): word, (key, "latency/isolated"): "undecided"}
    assert ended == code
    said = laptime("check", "last", "--against", "baseline").out
    assert "163 MiB" in said


def test_its_tolerance_is_not_that_of_the_latency(laptime: Laptime) -> None:
    stored(1, timed(), name="baseline")
    stored(2, timed(level=0.040))
    rules(MEMORY.format("90%"))
    assert checked(laptime)[1][timed().key, "latency/isolated"] == "broken"


@pytest.mark.parametrize(("rate", "word"), [(0.0526, "broken"), (0.0131, "kept")])
def test_less_throughput_is_worse(laptime: Laptime, rate: float, word: str) -> None:
    stored(1, timed(), name="baseline")
    stored(2, timed(level=rate))
    rules("[[budget]]\nmetric = 'throughput'\nregression = '10%'\n")
    _, words = checked(laptime)
    assert words[timed().key, "throughput/isolated"] == word


@pytest.mark.parametrize(
    ("text", "said", "following"),
    [
        (MEMORY.format("5%").replace("peak", "peek"), "no metric", "memory/host/peak"),
        ("[[budget]]\nmetric = 'params/all'\nregression = '5%'\n", "cannot be judged", "max = or min ="),
        ("[[budget]]\ncase = '*'\n", "sets no limit", "max = '30 ms'"),
    ],
)
def test_what_cannot_be_checked_is_an_error(laptime: Laptime, text: str, said: str, following: str) -> None:
    stored(1, timed(), name="baseline")
    stored(2, timed())
    rules(text)
    ended = laptime("check", "last", "--against", "baseline")
    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err
    assert following in ended.err


def test_a_regression_without_a_baseline_is_an_error_whatever_else_is_asked(laptime: Laptime) -> None:
    stored(1, timed())
    rules("[[budget]]\nmax = '1 s'\n" + MEMORY.format("5%"))
    ended = laptime("check")
    assert ended.code == 2
    assert "no baseline" in ended.err


@pytest.mark.parametrize(
    ("before", "now", "better", "word"),
    [
        ((32.4, 32.5, 32.3), (5.58, 5.60, 5.55), "higher", "broken"),
        ((32.4, 32.5, 32.3), (64.0, 64.2, 63.8), "higher", "kept"),
        ((2.0, 2.01, 1.99), (4.0, 4.02, 3.98), "lower", "broken"),
        ((32.4,), (5.58,), "higher", "undecided"),
        ((32.4, 32.5, 32.3), (5.58, 5.60, 5.55), "none", "undecided"),
    ],
)
def test_numbers_that_benchmarks_report_themselves_are_compared(
    laptime: Laptime, before: Sequence[float], now: Sequence[float], better: str, word: str
) -> None:
    stored(1, reported(*before, better=better), name="baseline")
    stored(2, reported(*now, better=better))
    code, words = checked(laptime)
    metric = "latency" if better == "none" else "reported/exp_per_second"
    assert words == {("b.Tiny.one", metric): word}
    assert code == {"kept": 0, "broken": 1, "undecided": 3}[word]


def test_a_case_that_the_baseline_lacks_is_undecided(laptime: Laptime) -> None:
    stored(1, reported(32.4, 32.5, 32.3), name="baseline")
    stored(2, reported(64.0, 64.2, 63.8), reported(1.0, 1.0, 1.0, target="b.Tiny.two"))
    code, words = checked(laptime)
    assert words["b.Tiny.two", "latency"] == "undecided"
    assert code == 3


def test_a_metric_of_a_revision_is_held_against_the_same_metric() -> None:
    cases = [
        runs.case(runs.timings(0.01), *runs.facts(peak_memory=memory), axes={"batch": 4, **again})
        for memory, again in ((100.0, {}), (300.0, {"again": 2}))
    ]
    run = runs.run(*cases)
    run = structs.replace(run, comparisons=of_pairs(run))
    verdicts = of_revision(run, Rules(budget=[Budget(metric="memory/host/peak", regression="50%")]))
    words = {each.metric: each.word for each in verdicts}
    assert words["memory/host/peak"] == "broken"
    assert {each.case for each in verdicts} == {cases[0].key}
