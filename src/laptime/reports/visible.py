"""What of a document a medium shows: parts of the right detail that have content."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

from msgspec.structs import replace

from laptime.reports import document as doc

Medium = Literal["terminal", "markdown", "page", "csv"]

_DETAILS: dict[Medium, tuple[doc.Detail, ...]] = {
    "terminal": ("brief", "text"),
    "markdown": ("brief", "text", "folded"),
    "page": ("brief", "folded", "page"),
    "csv": ("brief", "text", "folded", "page"),
}


def sections(document: doc.Document, medium: Medium) -> Iterator[doc.Section]:
    """The sections with content, holding only what the medium shows."""
    for section in document.sections:
        if section.detail in _DETAILS[medium] and (shown := blocks(section.blocks, medium)):
            yield replace(section, blocks=shown)


def blocks(blocks: Iterable[doc.Block], medium: Medium) -> list[doc.Block]:
    """The blocks with content, holding only what the medium shows."""
    shown = [_trimmed(block, medium) for block in blocks if block.detail in _DETAILS[medium]]
    return [block for block in shown if _has_content(block)]


def _trimmed(block: doc.Block, medium: Medium) -> doc.Block:
    details = _DETAILS[medium]
    if isinstance(block, doc.Table):
        return _table(block, details)
    if isinstance(block, doc.Views):
        tables = [table for table in blocks(block.tables, medium) if isinstance(table, doc.Table)]
        return replace(block, tables=tables[:1] if medium == "terminal" else tables)
    if isinstance(block, doc.Bars):
        return replace(block, rows=[bar for bar in block.rows if bar.detail in details])
    if isinstance(block, doc.Panels | doc.Group | doc.Folded):
        return replace(block, blocks=blocks(block.blocks, medium))
    return block


def _table(table: doc.Table, details: tuple[doc.Detail, ...]) -> doc.Table:
    shown = [row for row in table.rows if row.detail in details]
    places = [
        at
        for at, column in enumerate(table.columns)
        if column.detail in details and (at == 0 or any(_says_something(row.cells[at]) for row in shown))
    ]
    rows = [
        row if len(places) == len(table.columns) else replace(row, cells=[row.cells[at] for at in places])
        for row in shown
    ]
    columns = [table.columns[at] for at in places]
    return replace(table, columns=columns, rows=rows, total=max(table.total, len(table.rows)))


def _says_something(cell: doc.Value | doc.Cell) -> bool:
    return isinstance(cell, doc.Cell) or cell not in (None, "", 0)


def _has_content(block: doc.Block) -> bool:
    """Charts, findings and the like always have; the others where what they hold is not empty."""
    return all(getattr(block, name, True) for name in ("rows", "tables", "blocks", "text"))
