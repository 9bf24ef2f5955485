"""The answer to what was asked of a run, before what its kind has to say; checks as tests, what failed."""

from msgspec import structs

from laptime.kit.text import count
from laptime.records.check import Check, conclusion, summary
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
LEVELS: dict[str, str] = {"warn": "warning", "fail": "failed"}
"""How a check's outcome is called in a line, if it is not its own word."""
_FEW = 5  # cases whose numbers stand beside the answer on a terminal; of more it is what was asked of them


def is_asked(run: Run) -> bool:
    """Whether the run was to keep limits; that of a suite was to be measured at least."""
    return bool(run.verdicts) or run.verb == "suite"


def answer(made: doc.Document, run: Run) -> doc.Document:
    """A report that begins with the answer; whether to trust the numbers is the second line."""
    is_suite = run.verb == "suite"
    verdicts = sorted(run.verdicts, key=lambda verdict: WORST_FIRST.index(verdict.word))
    rows = [doc.Notice(v.word, f"{v.case}: {v.metric}: {v.sentence}", v.next) for v in verdicts]
    asked, bad = doc.Notices(rows), doc.Notices([row for row in rows if row.level != "kept"])
    notes = [doc.Notice("note", each.sentence) for each in run.findings if each.kind.startswith("suite/")]
    trust = doc.Facts([(made.verdict.word, made.verdict.sentence)])
    numbers = made.brief if is_suite or len(run.cases) <= _FEW else failures(run)
    brief = [trust, *numbers, bad, doc.Notices(notes)] if is_suite else [asked, trust, *numbers]
    sections = [doc.Section("checks", "Checks", [trust, asked], headed=False), *made.sections]
    return structs.replace(made, verdict=headline(run), answers=True, brief=brief, sections=sections)


def headline(run: Run) -> doc.Headline:
    """`passed: 3 checks kept`; what failed did not pass; if nothing had a limit, what was measured."""
    failed = sum(case.failure is not None for case in run.cases)
    failures = [f"{failed} of {count(len(run.cases), 'case')} failed"] if failed else []
    if not run.verdicts and not failed:
        return doc.Headline("measured", "neutral", f"{count(len(run.cases), 'case')}, no limit to keep")
    word, tone = _ANSWERS["broken" if failed else conclusion(run.verdicts)]
    said = [summary(run.verdicts)] if run.verdicts else []
    return doc.Headline(word, tone, "; ".join(failures + said))


def doubt(check: Check, lead: str = "", next: str = "") -> doc.Notice:
    """A check in a line: one that warns is a warning, one that fails has failed."""
    return doc.Notice(LEVELS.get(check.outcome, check.outcome), lead + check.sentence, next)


def test_cases(run: Run) -> list[TestCase]:
    """A test for every check of the run itself."""
    return [test_case(check, "checks") for check in run.checks]


def test_case(check: Check, group: str) -> TestCase:
    """A check as a test; a failed one is an error, because numbers behind it are no answer."""
    outcome: doc.Outcome = "error" if check.outcome == "fail" else "passed"
    return TestCase(group, check.name, outcome, check.outcome, check.sentence, whole(check.next))


def failures(run: Run) -> list[Failure]:
    """The cases that failed, were skipped or interrupted."""
    return [
        Failure(status=case.status, name=words.label(case, run), what=each.what, why=each.why, next=each.next)
        for case, each in [(case, case.failure) for case in run.cases if case.failure is not None]
    ]
