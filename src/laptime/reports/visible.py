"""What of a document a medium shows: parts of the right detail that have content."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

from msgspec.structs import replace

from laptime.reports.document import (
    Bars,
    Block,
    Cell,
    Code,
    Detail,
    Document,
    Facts,
    Folded,
    Group,
    Notices,
    Panels,
    Section,
    Table,
    Text,
    Value,
    Views,
)

Medium = Literal["terminal", "markdown", "page", "csv"]

_DETAILS: dict[Medium, tuple[Detail, ...]] = {
    "terminal": ("brief", "text"),
    "markdown": ("brief", "text", "folded"),
    "page": ("brief", "folded", "page"),
    "csv": ("brief", "text", "folded", "page"),
}


def sections(document: Document, medium: Medium) -> Iterator[Section]:
    """The sections with content, holding only what the medium shows."""
    for section in document.sections:
        if section.detail in _DETAILS[medium] and (shown := blocks(section.blocks, medium)):
            yield replace(section, blocks=shown)


def blocks(blocks: Iterable[Block], medium: Medium) -> list[Block]:
    """The blocks with content, holding only what the medium shows."""
    shown = [_trimmed(block, medium) for block in blocks if block.detail in _DETAILS[medium]]
    return [block for block in shown if _has_content(block)]


def _trimmed(block: Block, medium: Medium) -> Block:
    details = _DETAILS[medium]
    if isinstance(block, Table):
        return _table(block, details)
    if isinstance(block, Views):
        tables = [table for table in blocks(block.tables, medium) if isinstance(table, Table)]
        return replace(block, tables=tables[:1] if medium == "terminal" else tables)
    if isinstance(block, Bars):
        return replace(block, rows=[bar for bar in block.rows if bar.detail in details])
    if isinstance(block, Panels | Group | Folded):
        return replace(block, blocks=blocks(block.blocks, medium))
    return block


def _table(table: Table, details: tuple[Detail, ...]) -> Table:
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


def _says_something(cell: Value | Cell) -> bool:
    return isinstance(cell, Cell) or cell not in (None, "", 0)


def _has_content(block: Block) -> bool:
    if isinstance(block, Table | Bars | Facts | Notices):
        return bool(block.rows)
    if isinstance(block, Views):
        return bool(block.tables)
    if isinstance(block, Panels | Group | Folded):
        return bool(block.blocks)
    return bool(block.text) if isinstance(block, Text | Code) else True
