"""Levels of load: a row each of latencies, tokens and what the server counted, and what their checks say."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal, NamedTuple

from laptime.analysis.load import LevelStats, Tokens, level_stats
from laptime.analysis.stat import Stat
from laptime.kit.text import count
from laptime.kit.units import percent, usd
from laptime.records.case import Case
from laptime.records.load import AT_ONCE, AT_SLO, Level, count_here
from laptime.records.run import Run
from laptime.reports import document as doc
from laptime.reports.commands import whole
from laptime.reports.documents import verdicts
from laptime.reports.fields import Field, cut, tabulate, tell

COLUMNS = ("mean", "median", "p95", "p99")
_COUNTED = {"requests": "requests", "prompt tokens": "prompt", "output tokens": "output", "mean TTFT": "ttft"}


class LevelRow(NamedTuple):
    """A level: its case, facts and numbers (None if no request was answered)."""

    case: Case
    facts: Level
    stats: LevelStats | None

    @property
    def grows(self) -> bool:
        """Whether its queue grew."""
        return self.stats is not None and self.stats.balance.grows


def list_levels(run: Run) -> list[LevelRow]:
    """The levels of a run, in the order in which they were carried out."""
    made = [(case, case.details.load) for case in run.cases]
    return [LevelRow(case, facts, level_stats(case)) for case, facts in made if facts is not None]


def _table(rows: Sequence[LevelRow]) -> doc.Table:
    has_slo = any(row.facts.slo for row in rows)
    has_failed = any(row.facts.failed for row in rows)
    has_turns = any(row.facts.kind == "open" and row.facts.concurrency for row in rows)
    turn, late = (
        "Waiting for --concurrency, on average.",
        "99 of 100 requests are below it: the generator's own fault.",
    )
    fields = [
        Field("offered", lambda each: label(each.facts)),
        Field("answered", _of(lambda stats: _cell(stats.answered)), "number", "Whole answers per second."),
        *(
            Field(name, _latency(name), "number", regime="latency", priority=3 * (name == "mean"))
            for name in COLUMNS
        ),
        has_turns and Field("of it in turn", _of(lambda stats: doc.number(stats.turn, "s")), "number", turn),
        Field("sent late", _late, "number", late, priority=2),
        has_failed and Field("failed", "facts.failed", "count"),
        has_slo and Field("goodput", _goodput, "number", "Requests per second that kept the promise."),
        has_slo and Field("promise", lambda each: doc.Cell(each.facts.kept)),
        _price(rows, "calls", lambda each: each.stats.answered.value if each.stats else None),
        Field("verdict", lambda each: doc.Cell(word(each), tone=each.case.trust)),
    ]
    return tabulate("levels", fields, rows, row=lambda each: {"key": each.case.key})


def section(run: Run, rows: Sequence[LevelRow]) -> doc.Section:
    """The table, and how long each level lasted."""
    table = _table(rows)
    note = "Latency counts from when a request was due."
    note += " In brackets: the 95 % interval, by batch means." if table.has_intervals else ""
    ended = [row.facts for row in rows if row.facts.ended]
    lasted = "; ".join(f"{label(each)} {each.window:.0f} s: {_ENDED[each.ended]}" for each in ended)
    blocks = [table, doc.Facts([("lasted", lasted)])]
    return doc.Section("levels", "Levels", blocks, headed=False, note=note)


def brief(run: Run, rows: Sequence[LevelRow]) -> list[doc.Block]:
    """The level that the verdict is about, with those beside it, in the columns that answer."""
    kept = [index for index, row in enumerate(rows) if row.stats and not row.grows]
    first = max(0, min((kept or [0])[-1] - 1, len(rows) - 3))
    table = _table(rows[first : first + 3])
    return [cut(table, without=("mean", "p95", "of it in turn", "sent late", "failed"))]


_ENDED = {
    "precise": "its figures are known to 5 %",
    "unstable": "its queue grows",
    "limit": "the limit of --budget, before its figures were known",
}


def _of(cell: Callable[[LevelStats], doc.Cell]) -> Callable[[LevelRow], doc.Cell]:
    """Return a function that makes the cell of a level's numbers, `-` without any."""
    return lambda each: cell(each.stats) if each.stats else doc.Cell("-")


def _latency(name: str) -> Callable[[LevelRow], doc.Cell]:
    return _of(lambda stats: _cell(stats.latency[name]))


def _late(each: LevelRow) -> doc.Cell:
    """Only requests that were due at a time can be late."""
    is_timed = each.facts.kind == "open" and each.facts.arrivals != AT_ONCE
    return doc.number(each.stats.late, "s") if each.stats and is_timed else doc.Cell("-")


def _price(
    rows: Sequence[LevelRow], of: str, per_second: Callable[[LevelRow], float | None]
) -> Field | Literal[False]:
    """The column of prices, if a machine has one."""
    price = next((row.facts.usd_per_hour for row in rows if row.facts.usd_per_hour), 0.0)
    cell = lambda each: dollars(price, None if each.case.trust == "invalid" else per_second(each))  # noqa: E731
    return price > 0 and Field("USD per 1 M", cell, "number", regime=of)


def _cell(stat: Stat | None) -> doc.Cell:
    if stat is None or stat.value is None:
        return doc.Cell("-", note=stat.note if stat else "")
    return doc.Cell(stat.text, stat.value, stat.interval_text, note=stat.note)


def _goodput(each: LevelRow) -> doc.Cell:
    if each.facts.goodput is None:
        return doc.Cell("-")
    value, low, high = each.facts.goodput
    return doc.number(value, "1/s", (low, high))


def dollars(usd_per_hour: float, per_second: float | None) -> doc.Cell:
    """USD per 1 M at so many per second."""
    if not per_second:
        return doc.Cell("-")
    value = usd_per_hour / 3600 / per_second * 1e6
    return doc.Cell(usd(value), value)


def word(each: LevelRow) -> str:
    """The verdict of a level in a word or two."""
    return "unstable" if each.grows and each.case.trust != "invalid" else each.case.trust


def label(facts: Level) -> str:
    """`8/s poisson`, `32 users`, `Server, 8/s poisson`, `Offline, at most 64`."""
    scenario = f"{facts.scenario}, " if facts.scenario else ""
    if facts.kind == "closed":
        return scenario + count(facts.users, "user")
    cap = f", at most {facts.concurrency}" if facts.concurrency else ""
    if facts.arrivals == AT_ONCE:
        return f"{facts.scenario}{cap}"
    rate = f"{facts.rate:.4g}/s " if facts.rate else ""
    return f"{scenario}{rate}{facts.arrivals}{cap}"


def reasons(run: Run, rows: Sequence[LevelRow]) -> doc.Section:
    """List what checks say of each level; checks without doubt are left out."""
    several = len(rows) > 1
    if any(finding.kind == "load/peak" for finding in run.findings):  # the others only lead there
        rows = [row for row in rows if row.case.find(AT_SLO)] or rows[-1:]
    notices = [
        verdicts.doubt(check, f"{label(row.facts)}: " if several else "", whole(check.next, run))
        for row in rows
        for check in row.case.checks
        if check.outcome != "ok"
    ]
    if missing := _missing(rows):
        notices.append(doc.Notice("note", missing))
    return doc.Section("reasons", "Reasons", [doc.Notices(notices)], headed=False)


def _missing(rows: Sequence[LevelRow]) -> str:
    """Say why percentiles are not shown: of the first such level, and which others are like it.

    "" if all are shown; a level whose queue grew has none."""
    notes = {}
    for row in rows:
        if row.stats is not None and not row.grows:
            stats = (stat for name, stat in row.stats.latency.items() if name in COLUMNS)
            notes[label(row.facts)] = "; ".join(dict.fromkeys(s.note for s in stats if s.value is None))
    lacking = [level for level, note in notes.items() if note]
    if not lacking:
        return ""
    first, *others = lacking
    where = f"{first}: " if len(rows) > 1 else ""
    return where + notes[first] + (f"; likewise {', '.join(others)}" if others else "")


def token_section(run: Run, rows: Sequence[LevelRow]) -> doc.Section:
    """First token, tokens after it, tokens per second."""
    made = [(row, row.stats.tokens) for row in rows if row.stats and row.stats.tokens]
    exact = all(tokens.exact for _, tokens in made)
    gap = "ITL" if exact else "between chunks"
    fields = [
        Field("offered", lambda each: label(each.facts)),
        *(Field("TTFT", _first(name), "number", regime=name) for name in ("median", "p95")),
        *(Field(gap, _tokens("gap", name), "number", regime=name) for name in ("median", "p99")),
        Field("TPOT", _tokens("tpot", "median"), "number", regime="median"),
        Field("tokens/s in", lambda each: tell(_unwrap(each).sent, "{:,.0f}".format), "number"),
        Field("tokens/s out", lambda each: tell(_unwrap(each).got, "{:,.0f}".format), "number"),
        _price(rows, "tokens out", lambda each: _unwrap(each).got),
    ]
    table = tabulate("tokens", fields, [each for each, _ in made], row=lambda each: {"key": each.case.key})
    words = "TTFT ends at the first token; TPOT is (last - first) / (tokens after the first chunk)."
    words += " Tokens are the server's usage."
    if path := run.plan.get("path"):
        words = f"Asked: {path.value}. {words}"
    if any(each.facts.uncounted for each, _ in made):
        words += " It did not count all answers: how many tokens a chunk held is not known."
    elif any(each.facts.chunks < tokens.output * each.facts.answered - 0.5 for each, tokens in made):
        words += " Chunks held several tokens: the time between them is not an inter-token latency."
    turns = doc.Facts([("by turn", _turns(each, tokens)) for each, tokens in made if tokens.by_turn])
    blocks = [doc.Text(words), table, turns] if made else []
    return doc.Section("tokens", "Tokens", blocks, headed=False)


def _unwrap(each: LevelRow) -> Tokens:
    assert each.stats
    assert each.stats.tokens
    return each.stats.tokens


def _tokens(name: str, quantile: str) -> Callable[[LevelRow], doc.Cell]:
    return lambda each: _cell(getattr(_unwrap(each), name).get(quantile))


def _first(quantile: str) -> Callable[[LevelRow], doc.Cell]:
    """None of a level whose queue grew: it would only tell how long that was watched."""
    cell = _tokens("ttft", quantile)
    return lambda each: doc.Cell("-") if each.grows else cell(each)


def _turns(each: LevelRow, tokens: Tokens) -> str:
    first = ", ".join(f"{index}: {stat.text}" for index, stat in enumerate(tokens.by_turn, 1))
    said = f"{label(each.facts)}: median TTFT of turn {first}"
    if not each.facts.cached:  # many servers do not say
        return said
    cached = each.facts.cached / max(1.0, tokens.prompt * each.facts.answered)
    return f"{said}; by its usage the server had {percent(cached)} of the prompt tokens already"


def server_section(rows: Sequence[LevelRow]) -> doc.Section:
    """Pairs of columns: here, and by the server's `/metrics`."""
    counted = [row for row in rows if row.facts.server is not None]
    fields = [
        Field("offered", lambda each: label(each.facts)),
        *(
            Field(title, partial(_show_count, name, side), "number", regime=side)
            for title, name in _COUNTED.items()
            for side in ("here", "server")
        ),
    ]
    table = tabulate("server", fields, counted, row=lambda each: {"key": each.case.key})
    words = "Counts of the server's /metrics beside those seen here; TTFT counts from sending."
    blocks = [doc.Text(words), table] if counted else []
    return doc.Section("server", "By the server's own count", blocks, headed=False)


def _show_count(name: str, side: str, each: LevelRow) -> doc.Cell:
    counts = count_here(each.case.requests, each.facts) if side == "here" else each.facts.server
    value = getattr(counts, name)
    return doc.number(value, "s") if name == "ttft" else tell(value, "{:,}".format)
