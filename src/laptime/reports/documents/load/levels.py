"""Levels of load: a row each of latencies, tokens and what the server counted, and what their checks say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from laptime.analysis.load import LevelStats, Tokens, level_stats
from laptime.analysis.stat import Stat
from laptime.kit.text import count
from laptime.kit.units import percent, show, show_interval, usd
from laptime.records.case import Case
from laptime.records.load import AT_ONCE, AT_SLO, Level, seen_here
from laptime.records.run import Run
from laptime.reports import document as doc
from laptime.reports.commands import whole

COLUMNS = ("mean", "median", "p95", "p99")
_COUNTED = ("requests", "prompt tokens", "output tokens", "mean TTFT")


class Measured(NamedTuple):
    """A level: its case, facts and numbers (None where no request was answered)."""

    case: Case
    facts: Level
    stats: LevelStats | None


def measured(run: Run) -> list[Measured]:
    """The levels of a run, in the order in which they were carried out."""
    made = [(case, case.details.load) for case in run.cases]
    return [Measured(case, facts, level_stats(case)) for case, facts in made if facts is not None]


def section(run: Run, rows: Sequence[Measured]) -> doc.Section:
    """A row a level."""
    has_slo = any(each.facts.slo for each in rows)
    price = next((each.facts.usd_per_hour for each in rows if each.facts.usd_per_hour), None)
    has_failed = any(each.facts.failed for each in rows)
    has_turns = any(each.facts.kind == "open" and each.facts.concurrency for each in rows)
    columns = [
        doc.Column(title="offered"),
        doc.Column(title="answered", kind="number", note="Whole answers per second."),
        *(
            doc.Column(title=name, kind="number", regime="latency", priority=3 if name == "mean" else 0)
            for name in COLUMNS
        ),
        *(
            [doc.Column(title="of it in turn", kind="number", note="Waiting for --concurrency, on average.")]
            if has_turns
            else []
        ),
        doc.Column(
            title="sent late",
            kind="number",
            note="99 of 100 requests less: the generator's own fault.",
            priority=2,
        ),
        *([doc.Column(title="failed", kind="count")] if has_failed else []),
        *(
            [
                doc.Column(title="goodput", kind="number", note="Requests per second that kept the promise."),
                doc.Column(title="promise"),
            ]
            if has_slo
            else []
        ),
        *([doc.Column(title="USD per 1 M", kind="number", regime="calls")] if price else []),
        doc.Column(title="verdict"),
    ]
    table = doc.Table(
        id="levels",
        columns=columns,
        rows=[
            _row(each, has_failed=has_failed, has_turns=has_turns, has_slo=has_slo, price=price)
            for each in rows
        ],
    )
    note = "Latency counts from when a request was due."
    note += " In brackets: the 95 % interval, by batch means." if table.has_intervals else ""
    lasted = [_lasted(each.facts) for each in rows if each.facts.ended]
    blocks = [table, *([doc.Facts(rows=[("lasted", "; ".join(lasted))])] if lasted else [])]
    return doc.Section(id="levels", title="Levels", headed=False, note=note, blocks=blocks)


_ENDED = {
    "precise": "its figures are known to 5 %",
    "unstable": "its queue grows",
    "limit": "the limit of --budget, before its figures were known",
}


def _lasted(facts: Level) -> str:
    return f"{offered(facts)} {facts.window:.0f} s: {_ENDED[facts.ended]}"


def _row(each: Measured, *, has_failed: bool, has_turns: bool, has_slo: bool, price: float | None) -> doc.Row:
    stats = each.stats
    empty = doc.Cell(text="-")
    return doc.Row(
        cells=[
            offered(each.facts),
            _cell(stats.answered) if stats else empty,
            *(_cell(stats.latency[name]) if stats else empty for name in COLUMNS),
            *(
                [doc.Cell(text=show(stats.turn, "s"), value=stats.turn) if stats else empty]
                if has_turns
                else []
            ),
            doc.Cell(text=show(stats.late, "s"), value=stats.late)
            if stats and each.facts.kind == "open" and each.facts.arrivals != AT_ONCE
            else empty,
            *([each.facts.failed] if has_failed else []),
            *([_goodput(each.facts), doc.Cell(text=each.facts.kept)] if has_slo else []),
            *([dollars(price, stats.answered.value if stats else None)] if price else []),
            doc.Cell(text=word(each), tone=each.case.trust),
        ],
        key=each.case.key,
    )


def _cell(stat: Stat | None) -> doc.Cell:
    if stat is None or stat.value is None:
        return doc.Cell(text="-", note=stat.note if stat else "")
    interval = show_interval(stat.ci95, stat.value, stat.unit) if stat.ci95 else ""
    return doc.Cell(text=stat.text, value=stat.value, interval=interval, note=stat.note)


def _goodput(facts: Level) -> doc.Cell:
    if facts.goodput is None:
        return doc.Cell(text="-")
    value, *ends = facts.goodput
    ci95 = (ends[0], ends[1])
    return doc.Cell(text=show(value, "1/s", ci95), value=value, interval=show_interval(ci95, value, "1/s"))


def dollars(usd_per_hour: float, per_second: float | None) -> doc.Cell:
    """USD per 1 M at so many per second."""
    if not per_second:
        return doc.Cell(text="-")
    value = usd_per_hour / 3600 / per_second * 1e6
    return doc.Cell(text=usd(value), value=value)


def word(each: Measured) -> str:
    """The verdict of a level in a word or two."""
    if each.stats is not None and each.stats.balance.grows and each.case.trust != "invalid":
        return "unstable"
    return each.case.trust


def offered(facts: Level) -> str:
    """`8/s poisson`, `32 users`, `Server, 8/s poisson`, `Offline, at most 64`."""
    scenario = f"{facts.scenario}, " if facts.scenario else ""
    if facts.kind == "closed":
        return scenario + count(facts.concurrency or 0, "user")
    cap = f", at most {facts.concurrency}" if facts.concurrency else ""
    if facts.arrivals == AT_ONCE:
        return f"{facts.scenario}{cap}"
    rate = f"{facts.rate:.4g}/s " if facts.rate else ""
    return f"{scenario}{rate}{facts.arrivals}{cap}"


def reasons(run: Run, rows: Sequence[Measured]) -> doc.Section:
    """What checks say of each level, those of no doubt left out."""
    several = len(rows) > 1
    if any(finding.kind == "load/peak" for finding in run.findings):
        proofs = [each for each in rows if each.case.find(AT_SLO)] or rows[-1:]
        rows = proofs  # the others only lead there
    notices = [
        doc.Notice(
            level=check.outcome,
            text=(f"{offered(each.facts)}: " if several else "") + check.sentence,
            next=whole(check.next, run),
        )
        for each in rows
        for check in each.case.checks
        if check.outcome != "ok"
    ]
    if missing := _missing(rows):
        notices.append(doc.Notice(level="note", text=missing))
    return doc.Section(id="reasons", title="Reasons", headed=False, blocks=[doc.Notices(rows=notices)])


def _missing(rows: Sequence[Measured]) -> str:
    """Why percentiles are not told: of the first such level, and which others are like it.

    "" where all are told; a level whose queue grew has none.
    """
    notes = {}
    for each in rows:
        if each.stats is not None and not each.stats.balance.grows:
            stats = (stat for name, stat in each.stats.latency.items() if name in COLUMNS)
            notes[offered(each.facts)] = "; ".join(dict.fromkeys(s.note for s in stats if s.value is None))
    lacking = [level for level, note in notes.items() if note]
    if not lacking:
        return ""
    first, *others = lacking
    where = f"{first}: " if len(rows) > 1 else ""
    return where + notes[first] + (f"; likewise {', '.join(others)}" if others else "")


def token_section(rows: Sequence[Measured]) -> doc.Section:
    """First token, tokens after it, tokens per second."""
    made = [
        (each, each.stats.tokens) for each in rows if each.stats is not None and each.stats.tokens is not None
    ]
    price = next((each.facts.usd_per_hour for each in rows if each.facts.usd_per_hour), None)
    exact = all(tokens.exact for _, tokens in made)
    gap = "ITL" if exact else "between chunks"
    columns = [
        doc.Column(title="offered"),
        *(
            doc.Column(title=title, kind="number", regime=name)
            for title in ("TTFT",)
            for name in ("median", "p95")
        ),
        *(doc.Column(title=gap, kind="number", regime=name) for name in ("median", "p99")),
        doc.Column(title="TPOT", kind="number", regime="median"),
        doc.Column(title="tokens/s in", kind="number"),
        doc.Column(title="tokens/s out", kind="number"),
        *([doc.Column(title="USD per 1 M", kind="number", regime="tokens out")] if price else []),
    ]
    table = doc.Table(
        id="tokens", columns=columns, rows=[_token_row(each, tokens, price) for each, tokens in made]
    )
    words = (
        "TTFT ends at the first token; TPOT is (last - first) / (tokens - 1); tokens are the server's usage."
    )
    if made and not exact:
        words += " Chunks held several tokens: between them is no inter-token latency."
    turns = [("by turn", _turns(each, tokens)) for each, tokens in made if tokens.by_turn]
    blocks = [doc.Text(text=words), table, *([doc.Facts(rows=turns)] if turns else [])] if made else []
    return doc.Section(id="tokens", title="Tokens", headed=False, blocks=blocks)


def _token_row(each: Measured, tokens: Tokens, price: float | None) -> doc.Row:
    unstable = each.stats is not None and each.stats.balance.grows
    first = (
        [doc.Cell(text="-")] * 2 if unstable else [_cell(tokens.ttft.get(name)) for name in ("median", "p95")]
    )
    return doc.Row(
        cells=[
            offered(each.facts),
            *first,
            *(_cell(tokens.gap.get(name)) for name in ("median", "p99")),
            _cell(tokens.tpot.get("median")),
            doc.Cell(text=f"{tokens.sent:,.0f}", value=tokens.sent),
            doc.Cell(text=f"{tokens.got:,.0f}", value=tokens.got),
            *([dollars(price, tokens.got)] if price else []),
        ],
        key=each.case.key,
    )


def _turns(each: Measured, tokens: Tokens) -> str:
    first = ", ".join(f"{at}: {stat.text}" for at, stat in enumerate(tokens.by_turn, 1))
    said = f"{offered(each.facts)}: median TTFT of turn {first}"
    if not each.facts.cached:  # many servers do not tell
        return said
    cached = each.facts.cached / max(1.0, tokens.prompt * each.facts.answered)
    return f"{said}; by its usage the server had {percent(cached)} of the prompt tokens already"


def server_section(rows: Sequence[Measured]) -> doc.Section:
    """Pairs of columns: here, and by the server's `/metrics`."""
    columns = [doc.Column(title="offered")]
    for title in _COUNTED:
        columns += [doc.Column(title=title, kind="number", regime=side) for side in ("here", "server")]
    told = [each for each in rows if each.facts.server is not None]
    table = doc.Table(id="server", columns=columns, rows=[_server_row(each) for each in told])
    words = "What the server's /metrics counted beside what was seen here; TTFT counts from sending."
    blocks = [doc.Text(text=words), table] if told else []
    return doc.Section(id="server", title="By the server's own count", headed=False, blocks=blocks)


def _server_row(each: Measured) -> doc.Row:
    ours, theirs = seen_here(each.case.requests, each.facts), each.facts.server
    assert theirs is not None
    counts = [
        doc.Cell(text=f"{count:,}", value=count)
        for name in ("requests", "prompt", "output")
        for count in (getattr(ours, name), getattr(theirs, name))
    ]
    first = [doc.Cell(text=show(side.ttft, "s"), value=side.ttft) for side in (ours, theirs)]
    return doc.Row(cells=[offered(each.facts), *counts, *first], key=each.case.key)
