"""What the server says of itself beside what was seen here, a row a level."""

from __future__ import annotations

from collections.abc import Sequence

from laptime.kit.units import show
from laptime.records.load import seen_here
from laptime.reports import document as doc
from laptime.reports.documents.load.levels import Measured, offered

_PAIRS = ("requests", "prompt tokens", "output tokens", "mean TTFT")


def section(rows: Sequence[Measured]) -> doc.Section:
    """Pairs of columns: here, and by the server's `/metrics`."""
    columns = [doc.Column(title="offered")]
    for title in _PAIRS:
        columns += [doc.Column(title=title, kind="number", regime=side) for side in ("here", "server")]
    told = [each for each in rows if each.facts.server is not None]
    table = doc.Table(id="server", columns=columns, rows=[_row(each) for each in told])
    words = "What the server's /metrics counted beside what was seen here; TTFT counts from sending."
    blocks = [doc.Text(text=words), table] if told else []
    return doc.Section(id="server", title="By the server's own count", headed=False, blocks=blocks)


def _row(each: Measured) -> doc.Row:
    ours, theirs = seen_here(each.case, each.facts), each.facts.server
    assert theirs is not None
    counts = [
        doc.Cell(text=f"{count:,}", value=count)
        for name in ("requests", "prompt", "output")
        for count in (getattr(ours, name), getattr(theirs, name))
    ]
    first = [doc.Cell(text=show(side.ttft, "s"), value=side.ttft) for side in (ours, theirs)]
    return doc.Row(cells=[offered(each.facts), *counts, *first], key=each.case.key)
