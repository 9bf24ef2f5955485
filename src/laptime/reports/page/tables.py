"""Tables as the page shows them: one unit a column, anchors of rows, columns without values left out."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from laptime.reports._words import plain
from laptime.reports.columns import in_columns
from laptime.reports.document import Cell, Column, Row, Table, Value

_LINE = 40
"""Letters from which words are a sentence, which wraps."""


class PageCell(NamedTuple):
    """A cell; `bar`: its width in percent, `classes`: alignment, `long` for a sentence, its word."""

    text: str
    bar: int
    cell: Cell | None
    classes: str


class PageRow(NamedTuple):
    """A row with its anchor."""

    anchor: str
    row: Row
    cells: list[PageCell]


class Head(NamedTuple):
    """The head of a column."""

    column: Column
    unit: str

    @property
    def align(self) -> str:
        """Classes of its cells: `l` for words, `c` for names from programs."""
        return {"text": "l", "code": "l c"}.get(self.column.kind, "")


class PageTable(NamedTuple):
    """A table; `anchors`: of its rows by `TABLE/KEY`, `left_out`: rows that are not in the page."""

    heads: list[Head]
    rows: list[PageRow]
    left_out: int
    anchors: dict[str, str]


def shown(table: Table, linked: Collection[str] = ()) -> PageTable:
    """The first rows, and linked ones (`TABLE/KEY`) wherever they stand."""
    rows = [row for at, row in enumerate(table.rows) if at < table.most or f"{table.id}/{row.key}" in linked]
    filled = [
        index
        for index, column in enumerate(table.columns)
        if index == 0 or any(not _empty(row.cells[index]) for row in rows)
    ]
    columns = [table.columns[index] for index in filled]
    values = [[row.cells[index] for index in filled] for row in rows]
    texts = in_columns(columns, values)
    heads = [Head(column, text.unit) for column, text in zip(columns, texts, strict=True)]
    page_rows = []
    for number, (row, raw) in enumerate(zip(rows, values, strict=True)):
        cells = [
            _cell(head, plain(text.cells[number]), text.bars[number], value)
            for head, text, value in zip(heads, texts, raw, strict=True)
        ]
        page_rows.append(PageRow(f"{table.id}-{number}", row, cells))
    anchors = {f"{table.id}/{line.row.key}": line.anchor for line in reversed(page_rows)}
    return PageTable(heads, page_rows, len(table.rows) - len(rows), anchors)


def _cell(head: Head, text: str, bar: int, value: Value | Cell) -> PageCell:
    ready = value if isinstance(value, Cell) else None
    classes = [head.align] if head.align else []
    classes += ["long"] if head.column.kind == "text" and len(text) > _LINE else []
    classes += [f"word {ready.tone}"] if ready and ready.tone else []
    return PageCell(text, bar, ready, " ".join(classes))


def _empty(value: Value | Cell) -> bool:
    return value in (None, "", 0) or (
        isinstance(value, Cell) and value.text in ("", "-") and value.draw is None
    )
