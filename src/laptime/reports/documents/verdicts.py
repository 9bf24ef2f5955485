"""The answer to what was asked of a run, before what its kind has to say; checks as tests, what failed."""

from __future__ import annotations

from msgspec import structs

from laptime.kit.text import count
from laptime.records.check import Check, Verdict, conclusion, summary
from laptime.records.quantity import WORST_FIRST
from laptime.records.run import Run
from laptime.reports import _words as words
from laptime.reports import document as doc
from laptime.reports.commands import whole
from laptime.reports.document import Failure, TestCase

_ANSWERS: dict[str, tuple[str, doc.Tone]] = {
    "kept": ("passed", "trusted"),
    "broken": ("not passed", "invalid"),
    "undecided": ("undecided", "noisy"),
}
_FEW = 5
"""Cases whose numbers stand beside the answer on a terminal; of more it is what was asked of them."""


def is_asked(run: Run) -> bool:
    """Whether the run was to keep limits; that of a suite was to be measured at least."""
    return bool(run.verdicts) or run.verb == "suite"


def answered(made: doc.Document, run: Run) -> doc.Document:
    """A report that begins with the answer; whether to trust the numbers is the second line."""
    is_suite = run.verb == "suite"
    verdicts = sorted(run.verdicts, key=lambda verdict: WORST_FIRST.index(verdict.word))
    asked = doc.Notices(rows=[_notice(verdict) for verdict in verdicts])
    bad = doc.Notices(rows=[_notice(verdict) for verdict in verdicts if verdict.word != "kept"])
    notes = [
        doc.Notice(level="note", text=each.sentence)
        for each in run.findings
        if each.kind.startswith("suite/")
    ]
    trust = doc.Facts(rows=[(made.verdict.word, made.verdict.sentence)])
    numbers = made.brief if is_suite or len(run.cases) <= _FEW else failures(run)
    section = doc.Section(id="checks", title="Checks", blocks=[trust, asked], headed=False)
    brief = [trust, *numbers, bad, doc.Notices(rows=notes)] if is_suite else [asked, trust, *numbers]
    return structs.replace(
        made, verdict=headline(run), answers=True, brief=brief, sections=[section, *made.sections]
    )


def headline(run: Run) -> doc.Headline:
    """`passed: 3 checks kept`; what failed did not pass; where nothing had a limit, what was measured."""
    failed = sum(case.failure is not None for case in run.cases)
    failures = [f"{failed} of {count(len(run.cases), 'case')} failed"] if failed else []
    if not run.verdicts and not failed:
        sentence = f"{count(len(run.cases), 'case')}, no limit to keep"
        return doc.Headline(word="measured", tone="neutral", sentence=sentence)
    word, tone = _ANSWERS["broken" if failed else conclusion(run.verdicts)]
    said = [summary(run.verdicts)] if run.verdicts else []
    return doc.Headline(word=word, tone=tone, sentence="; ".join(failures + said))


def _notice(verdict: Verdict) -> doc.Notice:
    text = f"{verdict.case}: {verdict.metric}: {verdict.sentence}"
    return doc.Notice(level=verdict.word, text=text, next=verdict.next)


def doubt(check: Check, lead: str = "", next: str = "") -> doc.Notice:
    """A check in a line: one that warns is a warning, one that fails has failed."""
    word = {"warn": "warning", "fail": "failed"}.get(check.outcome, check.outcome)
    return doc.Notice(level=word, text=lead + check.sentence, next=next)


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
        next=whole(check.next),
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
