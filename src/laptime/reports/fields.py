"""Tables from records: a field is a column, and how its value is read from a row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from laptime.reports.document import Column, Extra, Kind, Row, Table


class Field(NamedTuple):
    """A column of a table.

    Attributes:
        value: of a row's cell: the name of an attribute, or a function of the row.
        note: what it means, on hover.
        bar: with bars that show it against the largest.
        brief: on terminals and in Markdown, too.
    """

    title: str
    value: str | Callable[[Any], Any]
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
    key: Callable[[Any], str] | None = None,
    full: Callable[[Any], str] = lambda row: "",
    tree: bool = False,
    extras: Callable[[Any, int], list[Extra]] = lambda row, index: [],
    most: int = 400,
    brief: int | Callable[[Any], bool] = 0,
    folded: int = 0,
) -> Table:
    """All rows; a page shows `most`, a terminal the `brief` ones and Markdown the first `folded`, too.

    Args:
        key: what findings call a row, the "aten::item" of `operators/aten::item`; its id or name by default.
        full: the whole name where the first cell has a short one.
        tree: rows have a `depth`.
        extras: of a row and its number, shown when it is opened.
        brief: the number of first rows, or whether a row is one.
    """
    values = [attrgetter(each.value) if isinstance(each.value, str) else each.value for each in fields]
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
                key=(key or _key)(row),
                full=full(row),
                depth=row.depth if tree else None,
                extras=extras(row, index),
                detail="brief" if index < first or is_brief(row) else "folded" if index < folded else "page",
            )
            for index, row in enumerate(rows)
        ],
        most=most,
        tree=tree,
    )


def _key(row: Any) -> str:
    names = ("id", "operator", "name", "rank", "kind")
    return str(next((getattr(row, name) for name in names if hasattr(row, name)), ""))
