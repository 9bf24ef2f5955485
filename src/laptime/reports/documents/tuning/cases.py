"""What a tuning session is to a test report: its gain, the questions of its gate, its checks."""

from __future__ import annotations

from laptime.analysis import tuned
from laptime.kit.errors import ExitCode
from laptime.records.run import Run
from laptime.records.tuning import Tuning
from laptime.reports.document import Headline, Outcome, TestCase
from laptime.reports.documents import checks

_GAIN: dict[ExitCode, Outcome] = {
    ExitCode.OK: "passed",
    ExitCode.NO: "failure",
    ExitCode.NOTHING: "skipped",
}
_ANSWERS: dict[str, Outcome] = {"ok": "passed", "fail": "failure"}


def cases(run: Run, tuning: Tuning, headline: Headline) -> list[TestCase]:
    """A test each. What is undecided or unknown is an error: a pipeline must not pass on it."""
    gain = TestCase(
        group=run.verb,
        name="gain",
        outcome="skipped" if tuned.dry(run) else _GAIN.get(tuned.exit_code(run), "error"),
        kind=tuned.outcome(run),
        sentence=f"{headline.word}: {headline.sentence}",
        next="; ".join(headline.next),
        seconds=run.seconds,
    )
    questions = [
        TestCase(
            group="gate",
            name=check.name,
            outcome=_ANSWERS.get(check.outcome, "error"),
            kind=check.outcome,
            sentence=check.sentence,
        )
        for check in tuning.gate.checks
    ]
    return [gain, *questions, *checks.test_cases(run)]
