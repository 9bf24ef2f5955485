"""Tables from records: a field is a column, and how its value is read from a row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from laptime.reports.document import Column, Extra, Kind, Row, Table

Reader = str | Callable[[Any], Any]
"""An attribute's name, or a function of a row."""


class Field(NamedTuple):
    """A column of a table.

    Attributes:
        value: of a row's cell.
        note: what it means, on hover.
        bar: with bars that show it against the largest.
        brief: on terminals and in Markdown, too.
    """

    title: str
    value: Reader
    kind: Kind = "text"
    note: str = ""
    bar: bool = False
    brief: bool = False


def table(
    id: str,
    fields: Sequence[Field],
    rows: Sequence[Any],
    *,
    title: str = "",
    key: Reader = "id",
    full: Reader = lambda row: "",
    depth: Reader | None = None,
    extras: Callable[[Any, int], list[Extra]] = lambda row, index: [],
    most: int = 400,
    brief: int | Callable[[Any], bool] = 0,
    folded: int = 0,
) -> Table:
    """All rows; a page shows `most`, a terminal the `brief` ones and Markdown the first `folded`, too.

    Args:
        brief: the number of first rows, or whether a row is one.
        key: what findings call a row: `operators/aten::item`.
        full: the whole name where the first cell has a short one.
        depth: of a row in a tree.
        extras: of a row and its number, shown when it is opened.
    """
    values = [_reader(field.value) for field in fields]
    key, full, level = _reader(key), _reader(full), _reader(depth or _none)
    is_brief = brief if callable(brief) else lambda row: False
    first = 0 if callable(brief) else brief
    return Table(
        id=id,
        title=title,
        columns=[
            Column(
                title=field.title,
                kind=field.kind,
                note=field.note,
                bar=field.bar,
                priority=index,
                detail="brief" if field.brief or not index else "page",
            )
            for index, field in enumerate(fields)
        ],
        rows=[
            Row(
                cells=[value(row) for value in values],
                key=key(row),
                full=full(row),
                depth=level(row),
                extras=extras(row, index),
                detail="brief" if index < first or is_brief(row) else "folded" if index < folded else "page",
            )
            for index, row in enumerate(rows)
        ],
        most=most,
        tree=depth is not None,
    )


def _reader(reader: Reader) -> Callable[[Any], Any]:
    return attrgetter(reader) if isinstance(reader, str) else reader


def _none(row: Any) -> None:
    return None
