"""A benchmark as test cases: one for every budget or baseline, every case, and every check of its numbers.

Broken is a failure; undecided, invalid and failed are errors, because a pipeline must not pass on them. What
has no number stands there, too, whatever else was asked of the run.
"""

from __future__ import annotations

from functools import partial

from laptime.records.case import Case
from laptime.records.run import Run
from laptime.records.verdict import Verdict
from laptime.reports.document import TestCase
from laptime.reports.documents import checks


def junit_cases(run: Run) -> list[TestCase]:
    """The times in them are those that were measured, summed over samples."""
    cases = {case.key: case for case in run.cases}
    judged = [_verdict(verdict, cases.get(verdict.case)) for verdict in run.verdicts]
    # A verdict that there should have been a number is what its case has to say.
    told = {verdict.case for verdict in run.verdicts if verdict.kind == "measured"}
    measured = [_measured(case) for case in run.cases if case.key not in told]
    checked = [checks.test_case(check, case.key) for case in run.cases for check in case.checks]
    if not run.cases:
        nothing = "nothing was measured"
        empty = TestCase(group=run.verb, name="cases", outcome="error", kind="invalid", sentence=nothing)
        measured = [empty]
    return [*judged, *measured, *checked, *checks.test_cases(run)]


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
