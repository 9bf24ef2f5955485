"""The report of a `trace` or `profile` run: what limits the step, where its time goes, what to change."""

from laptime.records.comparison import Difference
from laptime.records.profile import Profile
from laptime.records.run import Run
from laptime.reports.document import Document, Facts, Headline, TestCase, Tone
from laptime.reports.documents import verdicts as checks
from laptime.reports.documents.profile import schema, words
from laptime.reports.documents.profile.facts import cards
from laptime.reports.documents.profile.sections import advice, limit, sections

_TONES: dict[str, Tone] = {
    "device": "neutral",
    "cpu": "neutral",
    "memory": "neutral",
    "compilation": "neutral",
    "unknown": "unknown",
}
LEAST_SHARE = 0.02  # share of the step below which traces show no difference, as in `records.difference`


def document(run: Run) -> Document:
    """Everything a report says about a run with a profile."""
    profile = run.profile
    assert profile is not None
    what = Facts(rows=[("of", words.title(run, profile)), *limit(profile)])
    verdict = TestCase(group="verdict", name=words.bound(profile), sentence=words.sentence(profile))
    findings = [
        TestCase(
            group="findings",
            name=finding.kind,
            outcome="failure" if finding.severity == "problem" else "passed",
            kind=finding.severity,
            sentence=finding.sentence,
            next="; ".join(words.commands(finding, run)),
        )
        for finding in run.findings
    ]
    return Document(
        run=run,
        verb=run.verb,
        title=words.title(run, profile),
        verdict=_headline(profile),
        conditions=words.where(run, profile),
        warnings=words.warnings(run, profile),
        cards=cards(profile),
        brief=[what]
        if profile.against
        else [what, *(advice(finding, run, profile) for finding in run.findings[:1])],
        sections=sections(run, profile),
        cases=[verdict, *checks.test_cases(run), *findings],
        data=lambda: schema.report(run),
        about="Totals cover the whole file unless they say “per step”.",
    )


def _headline(profile: Profile) -> Headline:
    """Name the limit of the step; beside an earlier job, the change."""
    against, verdict = profile.against, profile.verdict
    if against is not None:
        return Headline(word=_change(against), tone="neutral", sentence=against.sentence)
    return Headline(
        word=words.bound(profile),
        tone=_TONES.get(verdict.bound, "noisy") if verdict else "unknown",
        sentence=words.sentence(profile),
        share=verdict.share if verdict else None,
    )


def _change(against: Difference) -> str:
    """`1.24x faster [1.20, 1.28]`; `unclear` if the steps of both overlap too much to tell."""
    ratio, ends = against.speedup, against.ci95
    low, high = ends or (ratio, ratio)
    if max(abs(low - 1), abs(high - 1)) < LEAST_SHARE:
        return "the same speed"
    shown = f" [{low:.2f}, {high:.2f}]" if ends else ", of too few steps for an interval"
    if low <= 1 <= high:
        return f"unclear: {ratio:.2f}x the speed{shown}"
    if ratio > 1:
        return f"{ratio:.2f}x faster{shown}"
    inverse = f" [{1 / high:.2f}, {1 / low:.2f}]" if ends and low > 0 else shown
    return f"{1 / ratio:.2f}x slower{inverse}" if ratio > 0 else "slower"
