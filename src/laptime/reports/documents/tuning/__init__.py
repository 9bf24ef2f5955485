"""The document of a tuning session: the gain, what bounds the step, the ladder, the gate, the patch."""

from __future__ import annotations

from laptime.analysis import tuned
from laptime.kit.units import show
from laptime.records.run import Run
from laptime.records.tuning import Tuning
from laptime.reports import _words
from laptime.reports.document import (
    Bar,
    Bars,
    Block,
    Card,
    Document,
    Facts,
    Failure,
    Folded,
    Notice,
    Notices,
    Section,
)
from laptime.reports.documents.tuning import ladder, patch, step, training, words
from laptime.reports.documents.tuning.cases import cases
from laptime.reports.documents.tuning.headline import headline

_MOST_CARDS = 6


def document(run: Run) -> Document:
    """A session as every report shows it."""
    tuning = run.tuning
    assert tuning is not None
    from laptime.reports.documents.tuning import data  # its types are compiled, which only --json needs

    verdict = headline(run)
    return Document(
        verb=run.verb,
        run=run,
        title=_words.title(run),
        verdict=verdict,
        conditions=[" · ".join(words.conditions(run))],
        cards=_cards(run, tuning),
        sections=[
            _notices(run),
            step.section(tuning),
            ladder.section(tuning),
            patch.suggested(tuning),
            training.section(tuning),
            patch.section(tuning),
            _session(run, tuning),
        ],
        cases=cases(run, verdict),
        data=lambda: data.document(run),
        about="Effects are of one change on top of those kept before it; only what was measured afresh, "
        "in new processes, is the gain.",
    )


def _cards(run: Run, tuning: Tuning) -> list[Card]:
    cards = []
    first, last, before, after = tuning.baseline, tuning.final, tuning.before, tuning.after
    if first and last:
        cards.append(
            Card(title="samples per second", figure=words.rate(last), note=f"{words.rate(first)} before")
        )
        cards.append(
            Card(title="a step", figure=show(last.step, "s"), note=f"{show(first.step, 's')} before")
        )
        if first.peak and last.peak:
            note = f"{show(first.peak, 'B')} before"
            cards.append(Card(title="peak memory", figure=show(last.peak, "B"), note=note))
    if before and after and before.utilization is not None and after.utilization is not None:
        busy, note = (_words.percent(share) for share in (after.utilization, before.utilization))
        cards.append(Card(title="device busy", figure=busy, note=f"{note} before"))
    if (smallest := tuned.detectable(run)) is not None:
        note = "of a step, from the script against itself"
        cards.append(Card(title="smallest gain it can show", figure=_words.percent(smallest), note=note))
    tried = f"of {len(tuned.tried(tuning))} tried"
    cards.append(Card(title="changes kept", figure=str(len(tuning.recipe)), note=tried))
    return cards[:_MOST_CARDS]


def _notices(run: Run) -> Section:
    """What failed, what was noticed on the way, and what checks say of the session."""
    failures = [
        Failure(status=case.status, name=case.key, what=failure.what, why=failure.why, next=failure.next)
        for case in run.cases
        if (failure := case.failure) is not None
    ]
    rows = [Notice(level=finding.severity, text=finding.sentence) for finding in run.findings]
    rows += [Notice(level=c.outcome, text=c.sentence) for c in run.checks if c.outcome != "ok"]
    return Section(id="notices", title="Notices", blocks=[*failures, Notices(rows=rows)], headed=False)


def _session(run: Run, tuning: Tuning) -> Section:
    seconds = [(name, value) for name, value in tuning.seconds_by.items() if 0 < value < 1e9]
    rows = [
        Bar(name=words.activity(name), value=value, text=show(value, "s"), kind="held")
        for name, value in sorted(seconds, key=lambda part: -part[1])
    ]
    blocks: list[Block] = [
        Facts(rows=[("time", words.session_time(run))]),
        Bars(rows=rows, detail="page"),
        Folded(title="Machine and settings", blocks=[Facts(rows=_environment(run))], detail="page"),
    ]
    return Section(id="session", title="The session", blocks=blocks)


def _environment(run: Run) -> list[tuple[str, str]]:
    machine = run.environment
    rows = [("command", _words.command(run))] if run.command else []
    rows += [("fingerprint", machine.fingerprint), ("CPU", machine.cpu), ("system", machine.os)]
    rows += [
        ("Python", machine.python),
        *((name, str(version)) for name, version in machine.libraries.items()),
    ]
    return rows + [(name, str(setting.value)) for name, setting in run.plan.items()]
