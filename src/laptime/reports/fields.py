"""Tables from records: a field is a column, and how its value is read from a row."""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Literal, NamedTuple

from markupsafe import Markup
from msgspec.structs import replace

from laptime.reports.document import Cell, Column, Detail, Extra, Kind, Row, Table


class Field(NamedTuple):
    title: str
    value: str | Callable[[Any], Any]  # of a row's cell: the name of an attribute, or a function of the row
    kind: Kind = "text"
    note: str = ""  # what it means, on hover
    bar: bool = False  # with bars that show it against the largest
    # of a table with rows and columns that only the page has: on terminals and in Markdown, too
    brief: bool = False
    # regime, priority, detail, draw: as those of a `Column`, of a table that is shown whole
    regime: str = ""
    priority: int = 0
    detail: Detail = "brief"
    draw: Callable[[], Markup] | None = None

    def of(self, row: Any) -> Any:
        return attrgetter(self.value)(row) if isinstance(self.value, str) else self.value(row)


def tabulate(
    id: str,
    fields: Iterable[Field | Literal[False]],
    rows: Iterable[Any],
    *,
    row: Callable[[Any], Mapping[str, Any]] = lambda row: {},
    **settings: Any,
) -> Table:
    """A table that is shown whole; a field that is False is left out. row: what a row of the document has
    besides its cells. settings: of the table."""
    shown = [field for field in fields if field]
    columns = [Column(**{name: getattr(field, name) for name in _OF_COLUMNS}) for field in shown]
    made = [Row([field.of(each) for field in shown], **row(each)) for each in rows]
    return Table(id, columns, made, **settings)


def tell(value: float | None, write: Callable[[Any], str]) -> Cell:
    """A number as it is written, `-` if there is none."""
    return Cell("-" if value is None else write(value), value)


def cut(table: Table, *, without: tuple[str, ...]) -> Table:
    """The table without the columns whose titles end so."""
    kept = [index for index, column in enumerate(table.columns) if not column.title.endswith(without)]
    rows = [replace(row, cells=[row.cells[at] for at in kept]) for row in table.rows]
    return replace(table, columns=[table.columns[at] for at in kept], rows=rows)


_OF_COLUMNS = ("title", "kind", "note", "bar", "regime", "priority", "detail", "draw")


def table(
    id: str,
    fields: Sequence[Field],
    rows: Sequence[Any],
    *,
    key: Callable[[Any], str] | None = None,
    full: Callable[[Any], str] = lambda row: "",
    extras: Callable[[Any, int], list[Extra]] = lambda row, index: [],
    brief: int | Callable[[Any], bool] = 0,
    folded: int = 0,
    **settings: Any,
) -> Table:
    """All rows; a page shows the first, a terminal the `brief` ones, and Markdown the first `folded`, too.

    key: what findings call a row, the "aten::item" of `operators/aten::item`; its id or name by default.
    full: the whole name where the first cell has a short one. extras: of a row and its number, shown when it
    is opened. brief: the number of first rows, or whether a row is one. settings: of the table; rows of a
    tree have a `depth`."""
    numbers, is_tree = itertools.count(), settings.get("tree")

    def describe(row: Any) -> dict[str, Any]:
        index = next(numbers)
        is_brief = brief(row) if callable(brief) else index < brief
        return {
            "key": (key or _key)(row),
            "full": full(row),
            "depth": row.depth if is_tree else None,
            "extras": extras(row, index),
            "detail": "brief" if is_brief else "folded" if index < folded else "page",
        }

    columns = [
        field._replace(priority=index, detail="brief" if field.brief or not index else "page")
        for index, field in enumerate(fields)
    ]
    return tabulate(id, columns, rows, row=describe, **settings)


def _key(row: Any) -> str:
    names = ("id", "operator", "name", "rank", "kind")
    return str(next((getattr(row, name) for name in names if hasattr(row, name)), ""))
