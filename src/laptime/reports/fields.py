"""Tables from records: a field is a column, and how its value is read from a row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Literal, NamedTuple

from laptime.reports.document import Column, Detail, Extra, Kind, Row, Table


class Field(NamedTuple):
    """A column of a table.

    Attributes:
        value: of a row's cell: the name of an attribute, or a function of the row.
        note: what it means, on hover.
        bar: with bars that show it against the largest.
        brief: of a table with rows and columns that only the page has: on terminals and in Markdown, too.
        regime, priority, detail: as those of a `Column`, of a table that is shown whole.
    """

    title: str
    value: str | Callable[[Any], Any]
    kind: Kind = "text"
    note: str = ""
    bar: bool = False
    brief: bool = False
    regime: str = ""
    priority: int = 0
    detail: Detail = "brief"

    def of(self, row: Any) -> Any:
        """Its cell of a row."""
        return attrgetter(self.value)(row) if isinstance(self.value, str) else self.value(row)


def listed(
    id: str,
    fields: Iterable[Field | Literal[False]],
    rows: Iterable[Any],
    *,
    row: Callable[[Any], Mapping[str, Any]] = lambda row: {},
    **settings: Any,
) -> Table:
    """A table that is shown whole; a field that is False is left out.

    Args:
        row: what a row of the document has besides its cells.
        settings: of the table.
    """
    shown = [field for field in fields if field]
    columns = [
        Column(
            title=field.title,
            kind=field.kind,
            note=field.note,
            bar=field.bar,
            regime=field.regime,
            priority=field.priority,
            detail=field.detail,
        )
        for field in shown
    ]
    made = [Row(cells=[field.of(each) for field in shown], **row(each)) for each in rows]
    return Table(id=id, columns=columns, rows=made, **settings)


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
                cells=[field.of(row) for field in fields],
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
