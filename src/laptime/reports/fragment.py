"""The few lines of a run that a notebook shows: escaped HTML without scripts, for light and dark pages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from markupsafe import Markup

from laptime.kit.units import estimate
from laptime.reports import document as doc
from laptime.reports.shown import alone, sections

ROWS = 12
"""Of a table; the reports have all."""

_COLOURS = {"trusted": "#1a7f4e", "noisy": "#a66300", "invalid": "#c0392b"}
_FRAME = "font: 13px/1.5 system-ui, sans-serif; max-width: 60em; overflow-x: auto"
_QUIET = "opacity: 0.75"


def render(document: doc.Document) -> str:
    """Verdict, next step and the first table of a document; its conditions in a quiet line."""
    parts = [_verdict(document), *_first_table(document)]
    if document.conditions:
        parts.append(Markup('<div style="{}">{}</div>').format(_QUIET, " · ".join(document.conditions)))
    return str(Markup('<div class="laptime" style="{}">{}</div>').format(_FRAME, Markup("").join(parts)))


def _verdict(document: doc.Document) -> Markup:
    verdict = document.verdict
    colour = _COLOURS.get(verdict.tone, "inherit")
    line = Markup('<div>{} <b>{}</b>: <b style="color: {}">{}</b> {}</div>')
    shown = line.format(document.verb, document.title, colour, verdict.word, verdict.sentence)
    if verdict.next:
        shown += Markup('<div style="{}">next: <code>{}</code></div>').format(_QUIET, verdict.next[0])
    return shown


def _first_table(document: doc.Document) -> Iterator[Markup]:
    for section in sections(document, "terminal"):
        for block in section.blocks:
            table = block.tables[0] if isinstance(block, doc.Views) else block
            if isinstance(table, doc.Table):
                yield _table(table)
                return


def _table(table: doc.Table) -> Markup:
    heads = [
        f"{column.title} ({column.regime})" if column.regime else column.title for column in table.columns
    ]
    rows = [
        [_cell(column, cell) for column, cell in zip(table.columns, row.cells, strict=True)]
        for row in table.rows[:ROWS]
    ]
    lines = [_line("th", heads), *(_line("td", row) for row in rows)]
    left = max(table.total, len(table.rows)) - len(rows)
    more = Markup('<div style="{}">and {} more rows</div>').format(_QUIET, left) if left > 0 else Markup("")
    return Markup("<table>{}</table>{}").format(Markup("").join(lines), more)


def _cell(column: doc.Column, cell: doc.Value | doc.Cell) -> str:
    text = alone(column.kind, cell)
    if not isinstance(cell, doc.Cell):
        return text
    return estimate(text, cell.interval) if cell.interval else f"{text} {cell.margin}".rstrip()


def _line(tag: Literal["th", "td"], cells: Sequence[str]) -> Markup:
    cell = {"th": Markup("<th>{}</th>"), "td": Markup("<td>{}</td>")}[tag]
    return Markup("<tr>{}</tr>").format(Markup("").join(map(cell.format, cells)))
