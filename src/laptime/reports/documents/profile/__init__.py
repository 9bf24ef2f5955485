"""The report of a `trace` or `profile` run: what limits the step, where its time goes, what to change."""

from __future__ import annotations

from laptime.records.profile import Profile
from laptime.records.run import Run
from laptime.reports.document import Document, Headline, TestCase, Tone
from laptime.reports.documents import checks
from laptime.reports.documents.profile import schema, words
from laptime.reports.documents.profile.cards import cards
from laptime.reports.documents.profile.sections import sections

_TONES: dict[str, Tone] = {
    "device": "neutral",
    "cpu": "neutral",
    "memory": "neutral",
    "compilation": "neutral",
    "unknown": "unknown",
}


def document(run: Run) -> Document:
    """Everything a report says about a run with a profile."""
    profile = run.profile
    assert profile is not None
    verdict = profile.verdict
    return Document(
        run=run,
        verb=run.verb,
        title=words.title(run, profile),
        verdict=Headline(
            word=words.bound(profile),
            tone=_TONES.get(verdict.bound, "noisy") if verdict else "unknown",
            sentence=words.sentence(profile),
            share=verdict.share if verdict else None,
        ),
        conditions=words.where(run, profile),
        warnings=words.warnings(run, profile),
        cards=cards(profile),
        sections=sections(run, profile),
        cases=_test_cases(run, profile),
        data=lambda: schema.report(run),
        about="Totals cover the whole file unless they say “per step”.",
    )


def _test_cases(run: Run, profile: Profile) -> list[TestCase]:
    """The verdict, every check and every finding; a finding that is a problem is a failure."""
    verdict = TestCase(group="verdict", name=words.bound(profile), sentence=words.sentence(profile))
    findings = [
        TestCase(
            group="findings",
            name=finding.kind,
            outcome="failure" if finding.severity == "problem" else "passed",
            kind=finding.severity,
            sentence=finding.sentence,
            next="; ".join(words.commands(finding)),
        )
        for finding in run.findings
    ]
    return [verdict, *checks.test_cases(run), *findings]
