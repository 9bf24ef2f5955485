"""Budgets are decided by intervals: kept, broken, undecided."""

from __future__ import annotations

import pytest
from msgspec import structs

from fixtures import runs
from laptime.analysis.budgets import judge, regression
from laptime.analysis.stat import Stat
from laptime.kit.errors import ExitCode, UsageError
from laptime.kit.units import amount
from laptime.records.check import Check, Verdict, conclusion, exit_code
from laptime.records.quantity import Judgement, Quantity

CASE = runs.case(runs.timings(0.01))


def stat(low: float, high: float, tag: str = "latency/isolated/median") -> Stat:
    quantity = Quantity((low + high) / 2, low, high, 50, "s")
    return Stat(tag=tag, title="median latency", unit="s", quantity=quantity, n=50)


@pytest.mark.parametrize(
    ("kind", "low", "high", "word"),
    [
        ("max", 0.8, 1.0, "kept"),
        ("max", 0.8, 1.2, "undecided"),
        ("max", 1.01, 1.2, "broken"),
        ("min", 1.0, 1.2, "kept"),
        ("min", 0.8, 1.2, "undecided"),
        ("min", 0.8, 0.99, "broken"),
    ],
)
def test_the_whole_interval_decides(kind: str, low: float, high: float, word: str) -> None:
    verdict = judge(CASE, stat(low, high), kind, 1.0)  # type: ignore[arg-type]
    assert verdict.word == word
    assert bool(verdict.next) == (word == "undecided")
    assert ("at most 1.00 s" if kind == "max" else "at least 1.00 s") in verdict.sentence


def test_a_median_without_interval_is_undecided_but_a_count_stands_for_itself() -> None:
    bare = structs.replace(stat(0.1, 0.1), quantity=Quantity(0.1, unit="s"))
    assert judge(CASE, bare, "max", 1.0).word == "undecided"
    peak = Stat(tag="memory/host/peak", title="peak", unit="B", quantity=Quantity(5.0, unit="B", exact=True))
    assert judge(CASE, peak, "max", 6.0).word == "kept"
    assert judge(CASE, peak, "max", 4.0).word == "broken"


def test_an_invalid_number_keeps_no_budget() -> None:
    bad = structs.replace(CASE, checks=[Check(name="x", outcome="fail", sentence="not waited for", next="y")])
    verdict = judge(bad, stat(0.1, 0.2), "max", 1.0)
    assert verdict.word == "undecided"
    assert "waited for" in verdict.sentence


@pytest.mark.parametrize(
    ("speedup", "ci95", "word", "held"),
    [
        (1.0, (0.99, 1.01), "same", "kept"),
        (0.97, (0.965, 0.975), "slower", "kept"),
        (0.8, (0.79, 0.81), "slower", "broken"),
        (0.94, (0.90, 0.98), "slower", "undecided"),
        (0.8, (0.65, 0.94), "unclear", "undecided"),
        (1.3, (1.2, 1.4), "faster", "kept"),
    ],
)
def test_a_regression_must_be_beyond_the_tolerance_with_its_interval(
    speedup: float, ci95: tuple[float, float], word: str, held: Judgement
) -> None:
    found = runs.against(CASE, CASE, word=word, speedup=speedup, ci95=ci95)  # type: ignore[arg-type]
    assert regression(found, 0.05).word == held


def test_one_broken_breaks_all_and_nothing_asked_is_undecided() -> None:
    def each(*words: str) -> list[Verdict]:
        return [Verdict(kind="max", case="c", metric="m", word=Judgement(word)) for word in words]

    assert conclusion(each("kept", "undecided", "broken")) == "broken"
    assert conclusion(each("kept", "undecided")) == "undecided"
    assert conclusion(each("kept", "kept")) == "kept"
    assert conclusion([]) == "undecided"
    codes = [exit_code(each(word)) for word in ("kept", "broken", "undecided")]
    assert codes == [ExitCode.OK, ExitCode.NO, ExitCode.UNDECIDED]


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("30 ms", "s", 0.03),
        ("2GiB", "B", 2 * 2**30),
        ("100/s", "1/s", 100.0),
        ("1.5 GFLOP", "FLOP", 1.5e9),
        ("40 %", "ratio", 0.4),
        ("0.4", "ratio", 0.4),
        ("25k", "1", 25_000.0),
        ("12", "1", 12.0),
        ("1e-3s", "s", 1e-3),
    ],
)
def test_amounts_are_read_in_the_unit_of_their_metric(text: str, unit: str, value: float) -> None:
    assert amount(text, unit) == pytest.approx(value)


@pytest.mark.parametrize(
    ("text", "unit"), [("30", "s"), ("30 MB", "s"), ("fast", "s"), ("", "s"), ("-1 s", "s")]
)
def test_an_amount_of_something_else_is_refused(text: str, unit: str) -> None:
    with pytest.raises(UsageError, match="amount in s"):
        amount(text, unit)
