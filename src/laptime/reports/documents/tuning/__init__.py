"""The document of a tuning session: the gain, the patch, the gate, the ladder, what bounds the step."""

from typing import Protocol

from msgspec import structs

from laptime.analysis import tuned
from laptime.kit.errors import ExitCode
from laptime.kit.units import show
from laptime.records.run import Run
from laptime.records.tuning import Tuning
from laptime.reports import _words
from laptime.reports import document as doc
from laptime.reports.documents import verdicts
from laptime.reports.documents.bench import machine
from laptime.reports.documents.tuning import model, script, server, words
from laptime.reports.documents.tuning.headline import headline


class _Part(Protocol):
    """The parts that only a script, a model or a server has."""

    def brief(self, tuning: Tuning) -> list[tuple[str, str]]:
        """The gate and what was handed back, as rows of the first screen."""

    def sections(self, tuning: Tuning) -> list[doc.Section]:
        """All of it, the ladder in its place."""


_OF: dict[str, _Part] = {"script": script, "model": model, "server": server}
_MOST_CARDS = 6
_GAIN: dict[ExitCode, doc.Outcome] = {
    ExitCode.OK: "passed",
    ExitCode.NO: "failure",
    ExitCode.NOTHING: "skipped",
}
_ANSWERS: dict[str, doc.Outcome] = {"kept": "passed", "broken": "failure"}


def document(run: Run) -> doc.Document:
    """A session as every report shows it."""
    assert run.tuning is not None
    tuning = tuned.in_measured_steps(run.tuning)
    run = structs.replace(run, tuning=tuning)
    from laptime.reports.documents.tuning import data  # its types are compiled, which only --json needs

    verdict = headline(run)
    # What a server is at before is a figure of the verdict; what bounds it nobody diagnosed.
    bound = tuning.before.sentence if tuning.before and tuning.server is None else ""
    kind, title = words.kind(tuning).name, _words.title(run)
    beside = [("beside", check.sentence) for check in run.checks if check.name == "quiet"]
    rows = [doc.Notice(finding.severity, finding.sentence) for finding in run.findings]
    rows += [verdicts.doubt(check) for check in run.checks if check.outcome != "ok"]
    blocks = [*verdicts.failures(run), doc.Notices(rows)]
    outcome = "skipped" if tuned.dry(run) else _GAIN.get(tuned.exit_code(run), "error")
    sentence, next = f"{verdict.word}: {verdict.sentence}", "; ".join(verdict.next)
    gain = doc.TestCase(run.verb, "gain", outcome, tuned.outcome(run), sentence, next, run.seconds)
    questions = [
        doc.TestCase("gate", check.name, _ANSWERS.get(check.outcome, "error"), check.outcome, check.sentence)
        for check in tuning.gate.checks
    ]
    return doc.Document(
        verb=run.verb,
        run=run,
        title=_words.title(run),
        verdict=verdict,
        conditions=words.conditions(run, tuning),
        cards=_cards(run, tuning),
        brief=[
            doc.Facts([(kind, f"{title}: {bound}" if bound else title), *_OF[kind].brief(tuning), *beside])
        ],
        sections=[
            doc.Section("notices", "Notices", blocks, headed=False, lead=True),
            *_OF[words.kind(tuning).name].sections(tuning),
            _session(run, tuning),
            machine.section(run),
        ],
        cases=[gain, *questions, *verdicts.test_cases(run)],
        data=lambda: data.document(run),
        about="Effects are of one change on top of those kept before it; only what was measured again, "
        "in new processes, is the gain.",
    )


def _cards(run: Run, tuning: Tuning) -> list[doc.Card]:
    rows: list[tuple[str, str, str]] = []
    first, last, before, after = tuning.baseline, tuning.final, tuning.before, tuning.after
    if first and last:
        if tuning.model is None or tuning.goal != "latency":  # a gain is of one figure, which is shown
            title = f"{words.items(tuning)} per second"
            rows.append((title, words.rate(last), f"{words.rate(first)} before"))
        if words.kind(tuning) is words.SCRIPT or tuning.goal == "latency":
            rows.append((words.name_timed(tuning), show(last.step, "s"), f"{show(first.step, 's')} before"))
        if first.peak and last.peak:
            rows.append(("peak memory", show(last.peak, "B"), f"{show(first.peak, 'B')} before"))
    if before and after and before.utilization is not None and after.utilization is not None:
        busy, busy_before = map(_words.percent, (after.utilization, before.utilization))
        rows.append(("device busy", busy, f"{busy_before} before"))
    if (smallest := tuned.detectable(run)) is not None:
        kind = words.kind(tuning)
        note = f"of a {kind.unit}, from the {kind.name} against itself"
        rows.append(("smallest gain it can show", _words.percent(smallest), note))
    tried = f"of {len(tuned.list_tried(tuning))} tried"
    rows.append(("changes kept", str(len(tuned.list_kept(tuning))), tried))
    return [doc.Card(title, figure, note=note) for title, figure, note in rows[:_MOST_CARDS]]


def _session(run: Run, tuning: Tuning) -> doc.Section:
    seconds = [(name, value) for name, value in tuning.seconds_by.items() if 0 < value < 1e9]
    rows = [
        doc.Bar(words.activity(name), value, show(value, "s"), kind="held")
        for name, value in sorted(seconds, key=lambda part: -part[1])
    ]
    lacked = ("too short", tuning.shortfall.sentence if tuning.shortfall else "")
    time = [("time", words.session_time(run, tuning)), ("ended", tuning.why_ended), lacked]
    return doc.Section("session", "The session", [doc.Facts(time), doc.Bars(rows, detail="page")])
