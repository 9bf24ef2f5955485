"""Checks of a run as tests of a JUnit report."""

from __future__ import annotations

from laptime.records.check import Check
from laptime.records.run import Run
from laptime.reports.document import TestCase


def test_cases(run: Run) -> list[TestCase]:
    """A test a check; a failed check is an error, because numbers behind it are no answer."""
    return [_test_case(check) for check in run.checks]


def _test_case(check: Check) -> TestCase:
    return TestCase(
        group="checks",
        name=check.name,
        outcome="error" if check.outcome == "fail" else "passed",
        kind=check.outcome,
        sentence=check.sentence,
        next=check.next,
    )
