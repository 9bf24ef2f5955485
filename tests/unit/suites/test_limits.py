from __future__ import annotations

from typing import Any

import pytest

from fixtures import runs
from laptime.suites import Benchmark, judge_run, regressions


def one(**limits: Any) -> Benchmark:
    return Benchmark(name="x", target="a:b", **limits)


@pytest.mark.parametrize(
    ("limits", "word"),
    [
        ({"max": {"latency": "1 s"}}, "kept"),
        ({"max": {"latency": 1e-6}}, "broken"),
        ({"min": {"throughput": 1}}, "kept"),
        ({"min": {"throughput": "1000000/s"}}, "broken"),
        ({"max": {"memory/host/peak": "1 GiB"}}, "kept"),
        ({"max": {"memory/host/peak": "1 MiB"}}, "broken"),
        ({"max": {"memory/host/peek": "1 MiB"}}, "undecided"),
        ({"max": {"latency": "1 GiB"}}, "undecided"),
    ],
)
def test_a_limit_is_kept_broken_or_undecided(limits: dict[str, Any], word: str) -> None:
    verdicts = judge_run(one(**limits), runs.trusted())
    assert {verdict.word for verdict in verdicts} == {word}
    assert all(verdict.next for verdict in verdicts if word == "undecided")


def test_failed_cases_have_no_verdict_of_their_own() -> None:
    assert judge_run(one(max={"latency": 1.0}), runs.scenarios()["failed"]()) == []


def test_a_case_that_the_baseline_lacks_is_undecided() -> None:
    (verdict,) = regressions(one(regression="5%"), runs.trusted(), [])
    assert (verdict.word, "such case" in verdict.sentence) == ("undecided", True)


def test_without_a_baseline_a_regression_is_undecided_and_says_why() -> None:
    (verdict,) = regressions(one(regression="5%"), runs.trusted(), "no run was stored before")
    assert (verdict.word, "no run" in verdict.sentence) == ("undecided", True)
    assert regressions(one(), runs.trusted(), "no run was stored before") == []
