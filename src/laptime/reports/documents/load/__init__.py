"""Load on an endpoint or a program as a document: the answer, a row a level, what its checks say."""

from collections.abc import Sequence

from laptime.analysis.load import LevelStats
from laptime.analysis.open_loop import grew_since
from laptime.kit.units import estimate, show
from laptime.records.load import AT_ONCE, Level
from laptime.records.run import Run
from laptime.reports import _words as words
from laptime.reports import document as doc
from laptime.reports.commands import whole
from laptime.reports.documents import verdicts
from laptime.reports.documents.load import curve, data, levels
from laptime.reports.documents.load.levels import LevelRow, label, word


def document(run: Run) -> doc.Document:
    """Everything that a report says about a load test."""
    measured = levels.list_levels(run)
    knee = curve.knee_of(run, measured)
    facts = doc.Facts([("knee", knee.sentence if knee else "")])
    return doc.Document(
        run=run,
        verb="load",
        title=run.subjects[0].target if run.subjects else run.name,
        verdict=_verdict(run, measured),
        conditions=words.where(run),
        brief=levels.brief(run, measured),
        sections=[
            levels.section(run, measured),
            doc.Section("knee", "Knee", [facts], headed=False),
            levels.token_section(run, measured),
            levels.server_section(measured),
            curve.section(run, measured),
            curve.over_time(measured),
            doc.Section("failures", "Failures", verdicts.failures(run), headed=False),
            levels.reasons(run, measured),
        ],
        cases=[verdicts.test_case(check, case.key) for case in run.cases for check in case.checks],
        data=lambda: data.report(run, measured),
        embedded=True,
        about="Latency counts from when a request was due. The same for machines: laptime load --json.",
    )


def _verdict(run: Run, rows: Sequence[LevelRow]) -> doc.Headline:
    """The verdict of the highest level that kept up; if none did, of the lowest."""
    if (peak := _peak(run)) is not None:
        return peak
    commands = [
        whole(check.next, run)
        for row in rows
        for check in row.case.checks
        if check.outcome in ("fail", "warn") and check.next
    ]
    kept = [row for row in rows if row.stats and not row.grows]
    if not rows or not any(row.stats for row in rows):
        return doc.Headline("invalid", "invalid", "no request was answered", next=commands[:1])
    unstable = [row for row in rows if row.grows]
    if not kept:
        least = unstable[0]
        answered = least.stats.answered.text if least.stats else "-"
        sentence = f"above capacity at {label(least.facts)}: about {answered} are answered, the queue grows"
        rows_of = least.stats and least.stats.requests
        if since := rows_of and grew_since(rows_of.due, rows_of.end):
            sentence += f" from second {since:.0f} on"
        return doc.Headline("unstable", "noisy", sentence, next=commands[:1], figure=f"{answered} answered")
    best = kept[-1]
    assert best.stats is not None
    between = ":" if best.facts.arrivals == AT_ONCE else " at"
    said = [f"{_figure(best.facts, best.stats)}{between} {label(best.facts)}"]
    said += [f"above capacity from {label(unstable[0].facts)} on"] if unstable else []
    told = [check for check in best.case.checks if check.outcome == "fail"][:1]
    told += [check for check in best.case.checks if check.name in ("stood_still", "stepped")]
    said += [check.sentence for check in told]
    figure = "" if run.trust == "invalid" else said[0].partition(";")[0]
    return doc.Headline(word(best), run.trust, "; ".join(said), next=commands[:1], figure=figure)


def _peak(run: Run) -> doc.Headline | None:
    found = next((finding for finding in run.findings if finding.kind == "load/peak"), None)
    if found is None:
        return None
    rate = found.evidence.get("rate")
    if rate is None:
        return doc.Headline("undecided", "noisy", found.sentence, next=[whole(found.next, run)])
    return doc.Headline(show(rate, "1/s"), "trusted", found.sentence)


def _figure(facts: Level, stats: LevelStats) -> str:
    """The highest percentile known; MLPerf's SingleStream tells p90, its Offline answers per second."""
    names = ("p90", "median") if facts.scenario == "SingleStream" else ("p99", "p95", "p90", "median")
    name = next((name for name in names if stats.latency[name].value), "median")
    name, stat = ("answered", stats.answered) if facts.arrivals == AT_ONCE else (name, stats.latency[name])
    return f"{name} {estimate(show(stat.value, stat.unit, stat.ci95), stat.interval_text)}"
