"""Checks of a run as tests of a JUnit report, and what could not be measured."""

from __future__ import annotations

from laptime.records.check import Check
from laptime.records.run import Run
from laptime.reports import _words as words
from laptime.reports.document import Failure, TestCase


def test_cases(run: Run) -> list[TestCase]:
    """A test for every check of the run itself."""
    return [test_case(check, "checks") for check in run.checks]


def test_case(check: Check, group: str) -> TestCase:
    """A check as a test; a failed one is an error, because numbers behind it are no answer."""
    return TestCase(
        group=group,
        name=check.name,
        outcome="error" if check.outcome == "fail" else "passed",
        kind=check.outcome,
        sentence=check.sentence,
        next=check.next,
    )


def failures(run: Run) -> list[Failure]:
    """The cases that failed, were skipped or interrupted."""
    return [
        Failure(
            status=case.status,
            name=words.label(case, run),
            what=case.failure.what,
            why=case.failure.why,
            next=case.failure.next,
        )
        for case in run.cases
        if case.failure is not None
    ]
