"""A benchmark as test cases: one a check of a budget or baseline; without them, one a measured case.

Broken is a failure; undecided and invalid numbers are errors, because a pipeline must not pass on them.
"""

from __future__ import annotations

from msgspec.structs import replace

from laptime.records.case import Case
from laptime.records.run import Run
from laptime.records.verdict import Verdict
from laptime.reports.document import Outcome, TestCase


def junit_cases(run: Run) -> list[TestCase]:
    """The times in them are those that were measured, summed over samples."""
    cases = {case.key: case for case in run.cases}
    if run.verdicts:
        return [_verdict(verdict, cases.get(verdict.case)) for verdict in run.verdicts]
    tests = [_measured(case) for case in run.cases]
    return tests or [
        TestCase(group=run.verb, name="cases", outcome="error", kind="invalid", sentence=_NOTHING)
    ]


_NOTHING = "nothing was measured"


def _verdict(verdict: Verdict, case: Case | None) -> TestCase:
    is_kept = verdict.word == "kept"
    return TestCase(
        group=verdict.case,
        name=f"{verdict.metric} {verdict.kind}",
        outcome="passed" if is_kept else "failure" if verdict.word == "broken" else "error",
        kind="" if is_kept else verdict.word,
        sentence=verdict.sentence,
        next="" if is_kept else verdict.next,
        seconds=_seconds(case),
    )


def _measured(case: Case) -> TestCase:
    test = TestCase(group=case.target, name=case.key, seconds=_seconds(case))
    failure = case.failure
    if failure is not None and case.status == "failed":
        return _with(test, "error", failure.kind, failure.what, failure.next)
    if case.status == "skipped":
        return _with(test, "skipped", "skipped", failure.what if failure else "", "")
    if case.trust == "invalid":
        bad = next((check for check in case.checks if check.outcome == "fail"), None)
        return _with(test, "error", "invalid", bad.sentence if bad else case.status, bad.next if bad else "")
    return test


def _with(test: TestCase, outcome: Outcome, kind: str, sentence: str, then: str) -> TestCase:
    return replace(test, outcome=outcome, kind=kind, sentence=sentence, next=then)


def _seconds(case: Case | None) -> float:
    timed = [series for series in case.series if series.metric.tag == "latency"] if case else []
    return sum(
        value * calls
        for series in timed
        for value, calls in zip(series.samples, series.calls or [1] * len(series.samples), strict=True)
    )
