"""Tokens of a language model, a row a level."""

from __future__ import annotations

from collections.abc import Sequence

from laptime.analysis.load.level import Tokens
from laptime.analysis.stat import Stat
from laptime.kit.units import percent, show_interval
from laptime.reports import document as doc
from laptime.reports.documents.load.levels import Measured, dollars, offered


def section(rows: Sequence[Measured]) -> doc.Section:
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
    table = doc.Table(id="tokens", columns=columns, rows=[_row(each, tokens, price) for each, tokens in made])
    words = (
        "TTFT ends at the first token; TPOT is (last - first) / (tokens - 1); tokens are the server's usage."
    )
    if made and not exact:
        words += " Chunks held several tokens: between them is no inter-token latency."
    turns = [("by turn", _turns(each, tokens)) for each, tokens in made if tokens.by_turn]
    blocks = [doc.Text(text=words), table, *([doc.Facts(rows=turns)] if turns else [])] if made else []
    return doc.Section(id="tokens", title="Tokens", headed=False, blocks=blocks)


def _row(each: Measured, tokens: Tokens, price: float | None) -> doc.Row:
    unstable = each.stats is not None and each.stats.balance.grows
    first = [doc.Cell(text="-")] * 2 if unstable else [_cell(tokens.ttft, name) for name in ("median", "p95")]
    return doc.Row(
        cells=[
            offered(each.facts),
            *first,
            *(_cell(tokens.gap, name) for name in ("median", "p99")),
            _cell(tokens.tpot, "median"),
            doc.Cell(text=f"{tokens.sent:,.0f}", value=tokens.sent),
            doc.Cell(text=f"{tokens.got:,.0f}", value=tokens.got),
            *([dollars(price, tokens.got)] if price else []),
        ],
        key=each.case.key,
    )


def _cell(stats: dict[str, Stat], name: str) -> doc.Cell:
    stat = stats.get(name)
    if stat is None or stat.value is None:
        return doc.Cell(text="-")
    interval = show_interval(stat.ci95, stat.value, stat.unit) if stat.ci95 else ""
    return doc.Cell(text=stat.text, value=stat.value, interval=interval)


def _turns(each: Measured, tokens: Tokens) -> str:
    first = ", ".join(f"{at}: {stat.text}" for at, stat in enumerate(tokens.by_turn, 1))
    said = f"{offered(each.facts)}: median TTFT of turn {first}"
    if not each.facts.cached:  # many servers do not tell
        return said
    cached = each.facts.cached / max(1.0, tokens.prompt * each.facts.answered)
    return f"{said}; by its usage the server had {percent(cached)} of the prompt tokens already"
