"""The document of `laptime scale`: a row a number of ranks, its efficiency, and why it is not 1."""

from functools import partial
from typing import Any

from laptime.analysis.ranks import Answer, RankRow, bound, fewest, rank_rows
from laptime.kit.units import percent, show, usd, usd_interval
from laptime.records.check import trust as judge
from laptime.records.quantity import BROKEN, KEPT, Quantity
from laptime.records.run import Run
from laptime.records.scale import Exchange, OnRanks
from laptime.reports import _words as words
from laptime.reports import document as doc
from laptime.reports.commands import whole
from laptime.reports.documents import verdicts
from laptime.reports.fields import Field, tabulate, tell

_WORDS: dict[Any, tuple[str, doc.Tone]] = {KEPT: ("reached", "trusted"), BROKEN: ("not reached", "invalid")}


def document(run: Run) -> doc.Document:
    """Return the efficiency of the most ranks, then all rows."""
    rows = rank_rows(run.cases)
    table, facts = _table(rows), doc.Facts(_beyond(rows))
    doubts = [(f"{row.name}: ", each) for row in rows for each in row.case.checks if each.outcome != "ok"]
    notices = [doc.Notice(each.severity, each.sentence, each.change) for each in run.findings]
    doubts += [("", each) for each in run.checks]
    notices += [verdicts.doubt(each, lead, whole(each.next, run)) for lead, each in doubts]
    bars = [
        doc.Bar(row.name, row.rate.value, row.rate.text, kind="on-device", interval=row.rate.interval)
        for row in rows
    ]
    return doc.Document(
        run=run,
        verb="scale",
        title=words.title(run),
        verdict=headline(run),
        conditions=words.where(run),
        brief=[table, facts, doc.Notices(notices), *verdicts.failures(run)],
        sections=[
            doc.Section("ranks", "Ranks", [table, facts], headed=False),
            doc.Section("rates", "Samples per second", [doc.Bars(bars)], detail="page"),
            doc.Section("findings", "Findings", [doc.Notices(notices)], headed=False),
            doc.Section("failures", "Failures", verdicts.failures(run), headed=False),
        ],
        cases=[
            *_test_failures(run),
            *(verdicts.test_case(c, case.key) for case in run.cases for c in case.checks),
        ],
        data=lambda: data(run),
        about="Efficiency is that against the fewest ranks, round by round; brackets are 95 % intervals.",
    )


def _test_failures(run: Run) -> list[doc.TestCase]:
    failed = [(case.key, case.failure) for case in run.cases if case.failure]
    return [doc.TestCase(key, "measured", "error", each.kind, each.what, each.next) for key, each in failed]


def _table(rows: list[RankRow]) -> doc.Table:
    fields = [
        Field("ranks", "ranks", "count"),
        any("machines" in row.case.axes for row in rows)
        and Field("machines", lambda row: str(row.case.axes.get("machines", 1)), "count"),
        Field("scaling", lambda row: row.scaling or "-", note="weak: a batch a rank; strong: one for all"),
        Field("samples/s", lambda row: doc.as_cell(row.rate), "number", "of all ranks"),
        Field(
            "efficiency", lambda row: tell(row.efficiency.value, lambda _: _share(row.efficiency)), "share"
        ),
        Field("step", lambda row: doc.as_cell(row.step), "time"),
        Field("alone", partial(_of_step, "alone"), note="only communication runs: of a traced step"),
        Field("waiting", partial(_of_step, "waiting"), note="for the last rank: of communication"),
        any(_facts(row).usd is not None for row in rows) and Field("USD an epoch", _usd, "number"),
        Field("word", lambda row: doc.Cell(row.case.trust, tone=row.case.trust)),
    ]
    return tabulate("rank", fields, rows, row=lambda row: {"key": row.case.key})


def _facts(row: RankRow) -> OnRanks:
    return row.case.details.ranks or OnRanks(samples=1.0)


def _share(of: Quantity) -> str:
    """`84 % [80, 88]`."""
    ends = f" [{100 * of.low:.0f}, {100 * of.high:.0f}]" if of.low is not None and of.high is not None else ""
    return percent(of.value) + ends


def _of_step(what: str, row: RankRow) -> doc.Cell:
    seen: Exchange | None = _facts(row).exchange
    return tell(None if seen is None else seen.waiting if what == "waiting" else seen.exposed_share, percent)


def _usd(row: RankRow) -> doc.Cell:
    known = _facts(row)
    return doc.Cell(usd(known.usd, known.usd_ci95), known.usd, usd_interval(known.usd_ci95))


def _usable(run: Run) -> list[RankRow]:
    return [row for row in rank_rows(run.cases) if row.case.trust != "invalid"]


def answer(run: Run) -> Answer | None:
    """Which ranks reach the rate that was asked for; None if none was, or there is nothing to answer by."""
    target, rows = run.plan["target"].value if "target" in run.plan else None, _usable(run)
    return fewest(rows, float(target)) if target and rows else None


def headline(run: Run) -> doc.Headline:
    """The fewest ranks for the rate that was asked for, else the efficiency of the most ranks."""
    rows = _usable(run)
    reasons = [check.sentence for case in run.cases for check in case.checks if check.outcome == "fail"]
    reasons += dict.fromkeys(case.failure.what for case in run.cases if case.failure)
    if not rows or len(rows) == 1 < len(run.cases):
        return doc.Headline("invalid", "invalid", "; ".join(reasons[:2]) or "no job gave a rate")
    doubts = [row.case.trust for row in rows] + ([judge(run.checks)] if run.checks else [])
    trust: doc.Tone = "noisy" if "noisy" in doubts else "trusted"
    if asked := answer(run):
        word, tone = _WORDS.get(asked.word, ("undecided", "noisy"))
        return doc.Headline(word, tone, _answer(asked, show(float(run.plan["target"].value), "1/s")))
    most = next((row for row in reversed(rows) if row.scaling == "weak"), rows[-1])
    if most is rows[0]:
        return doc.Headline("one number of ranks", trust, f"{most.name}: {most.rate.estimate}")
    times = f"{most.ranks / rows[0].ranks:g} times the rate of {rows[0].name} ({most.scaling} scaling)"
    sentence = f"{most.name}: {most.rate.estimate} samples, {_share(most.efficiency)} of {times}"
    return doc.Headline(f"{percent(most.efficiency.value)} efficient", trust, sentence)


def _answer(asked: Answer, rate: str) -> str:
    open_ = ", ".join(f"{row.name} {row.rate.estimate}" for row in asked.open)
    if asked.met:
        may = f"; fewer may: {open_}" if open_ else ""
        return f"{asked.met.name}: {asked.met.rate.estimate}, the fewest that reach {rate} samples{may}"
    if open_:
        return f"it is not certain that {rate} samples are reached: {open_}"
    return f"no measured number of ranks gives {rate} samples; at least {asked.bound} are needed (a bound)"


def _beyond(rows: list[RankRow]) -> list[tuple[str, str]]:
    if not rows:
        return []
    more, known = 2 * rows[-1].ranks, max((row.ranks for row in rows if not row.takes_turns), default=0)
    text = f"{more} ranks give at most {show(bound(rows, more), '1/s')} samples (a bound: efficiency is taken"
    return [("beyond", f"{text} to be no better there than at {known or rows[-1].ranks})")]


def data(run: Run) -> dict[str, Any]:
    """The rows for programs; seconds, samples per second, shares."""
    names, rows = ("rate", "efficiency", "step"), rank_rows(run.cases)
    asked = answer(run)
    return {
        "schema": "laptime.scale/1",
        "run": run,
        "rows": [{"key": row.case.key, **{name: getattr(row, name) for name in names}} for row in rows],
        "target": asked
        and {"word": asked.word, "ranks": asked.met and asked.met.ranks, "at_least": asked.bound},
    }
