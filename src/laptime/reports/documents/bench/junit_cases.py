"""A benchmark as test cases: one a check of a budget or baseline; without them, one a measured case.

Broken is a failure; undecided and invalid numbers are errors, because a pipeline must not pass on them.
"""

from __future__ import annotations

from functools import partial

from laptime.records.case import Case
from laptime.records.run import Run
from laptime.records.verdict import Verdict
from laptime.reports.document import TestCase


def junit_cases(run: Run) -> list[TestCase]:
    """The times in them are those that were measured, summed over samples."""
    cases = {case.key: case for case in run.cases}
    if run.verdicts:
        return [_verdict(verdict, cases.get(verdict.case)) for verdict in run.verdicts]
    nothing = "nothing was measured"
    empty = TestCase(group=run.verb, name="cases", outcome="error", kind="invalid", sentence=nothing)
    return [_measured(case) for case in run.cases] or [empty]


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
    failure, test = case.failure, partial(TestCase, group=case.target, name=case.key, seconds=_seconds(case))
    if failure is not None and case.status == "failed":
        return test(outcome="error", kind=failure.kind, sentence=failure.what, next=failure.next)
    if case.status == "skipped":
        return test(outcome="skipped", kind="skipped", sentence=failure.what if failure else "")
    if case.trust != "invalid":
        return test()
    bad = next((check for check in case.checks if check.outcome == "fail"), None)
    sentence, then = (bad.sentence, bad.next) if bad else (case.status, "")
    return test(outcome="error", kind="invalid", sentence=sentence, next=then)


def _seconds(case: Case | None) -> float:
    timed = [series for series in case.series if series.metric.tag == "latency"] if case else []
    return sum(
        value * calls
        for series in timed
        for value, calls in zip(series.samples, series.calls or [1] * len(series.samples), strict=True)
    )
