"""The report for spreadsheets: every table and bar of any kind of run in long form, a cell a line.

Columns: section, table, row (its number), name (its first cell), column, value (the raw number in SI base
units, empty if there is none), text (as people read it)."""

import csv
import re
from collections.abc import Iterator, Sequence
from io import StringIO

from laptime.records.run import Run
from laptime.reports import document as doc
from laptime.reports._words import plain
from laptime.reports.documents import document
from laptime.reports.shown import NANOSECONDS, alone, sections, title

NAME = "csv"
SUFFIXES: tuple[str, ...] = (".csv",)
HEAD = ("section", "table", "row", "name", "column", "value", "text")
_FORMULA = re.compile(r"[=@]|[+-](?![\d.])")
Line = tuple[str, str, int, str, str, str, str]


def render(run: Run) -> str:
    """All tables, with a line for the verdict first."""
    return render_document(document(run))


def render_document(document: doc.Document) -> str:
    """Any document."""
    out = StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(HEAD)
    verdict = document.verdict
    writer.writerow(_safe(("verdict", "", 1, verdict.word, "sentence", "", verdict.sentence)))
    for section in sections(document, "csv"):
        for line in _lines(section.id, "", section.blocks):
            writer.writerow(_safe(line))
    return out.getvalue()


def _lines(section: str, group: str, blocks: Sequence[doc.Block]) -> Iterator[Line]:
    for block in blocks:
        match block:
            case doc.Table():
                yield from _table(section, group, block)
            case doc.Bars():
                for number, bar in enumerate(block.rows, 1):
                    share = "" if bar.share is None else f"{bar.share:.10g}"
                    column = "share" if share else "value"
                    yield (section, group or block.title, number, bar.name, column, share, bar.text)
            case doc.Facts():
                for number, (topic, text) in enumerate(block.rows, 1):
                    yield (section, group, number, topic, "text", "", text)
            case doc.Views():
                yield from _lines(section, group, block.tables)
            case doc.Group():
                yield from _lines(section, block.title, block.blocks)
            case doc.Folded() | doc.Panels():
                yield from _lines(section, group, block.blocks)


def _table(section: str, group: str, table: doc.Table) -> Iterator[Line]:
    head = group or table.title
    for number, row in enumerate(table.rows, 1):
        name = row.full or alone(table.columns[0].kind, row.cells[0])
        for column, cell in zip(table.columns, row.cells, strict=True):
            if (text := alone(column.kind, cell)) not in ("", "-"):
                yield (section, head, number, name, title(column), _raw(column, cell), text)
            if isinstance(cell, doc.Cell) and cell.interval:
                yield (section, head, number, name, f"{title(column)}, 95 % interval", "", cell.interval)
        if row.notes:
            yield (section, head, number, name, table.notes_title, "", "; ".join(row.notes))


def _raw(column: doc.Column, cell: doc.Value | doc.Cell) -> str:
    value = cell.value if isinstance(cell, doc.Cell) else cell
    if value is None or isinstance(value, str):
        return ""
    return f"{value / 1e9 if column.kind in NANOSECONDS else value:.10g}"


def _safe(line: Line) -> list[str]:
    """Write text on one line, without folders of this machine, and nothing that reads as a formula."""
    return [f"'{text}" if _FORMULA.match(text) else text for text in map(plain, line)]
