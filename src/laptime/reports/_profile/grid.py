"""Tables of the page: rows of raw values in, cells with one unit a column out.

Columns of one kind have one unit, so that numbers can be compared by their length.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from laptime.kit.units import scale
from laptime.reports._onefile import plain

Kind = Literal["text", "code", "time", "short", "bytes", "rate", "share", "count", "number"]
Value = str | float | int | None

ROWS = 400
"""Rows of a table that are put into the page; more are counted and left out."""


class Column(NamedTuple):
    """The head of a column.

    Attributes:
        kind: time and short (times) are in nanoseconds, bytes in bytes, rate in bytes/s, share a fraction.
        bar: a bar under the number shows it against the largest one.
        note: what it means, on hover.
    """

    title: str
    kind: Kind = "text"
    note: str = ""
    bar: bool = False


class Extra(NamedTuple):
    """What a row shows when it is opened: a caption and lines under it."""

    caption: str
    lines: Sequence[str]


class Row(NamedTuple):
    """A row of raw values.

    Attributes:
        key: what findings call it, without the table's name.
        values: one for each column; the first is the name.
        full: the whole name where the first value is a short one.
        depth: in a tree.
    """

    key: str
    values: Sequence[Value]
    full: str = ""
    extras: Sequence[Extra] = ()
    depth: int | None = None


class Cell(NamedTuple):
    """A cell as it is shown; `width`: of its bar in percent."""

    text: str
    width: int = 0


class Line(NamedTuple):
    """A row as it is shown."""

    anchor: str
    name: str
    full: str
    extras: Sequence[Extra]
    cells: list[Cell]
    depth: int | None


class Head(NamedTuple):
    """A column as it is shown."""

    title: str
    unit: str
    left: bool
    code: bool
    note: str


class Table(NamedTuple):
    """A table as it is shown.

    Attributes:
        id: in the page; anchors of rows begin with it.
        title: of this view of several, "" when it is the only one.
        total: rows there are, of which `lines` are in the page.
        anchors: of a row by its key.
    """

    id: str
    title: str
    note: str
    heads: list[Head]
    lines: list[Line]
    total: int
    tree: bool
    anchors: dict[str, str]


def table(
    id: str,
    columns: Sequence[Column],
    rows: Sequence[Row],
    *,
    title: str = "",
    note: str = "",
    wanted: Iterable[str] = (),
    most: int = ROWS,
) -> Table:
    """The first `most` rows, and wanted ones wherever they stand; columns without any value go."""
    keys = set(wanted)
    shown = [row for index, row in enumerate(rows) if index < most or row.key in keys]
    kept = [
        i
        for i, column in enumerate(columns)
        if i == 0 or any(row.values[i] not in (None, "", 0) for row in shown)
    ]
    pairs = [(columns[i], [row.values[i] for row in shown]) for i in kept]
    units = _units(pairs)
    made = [_column(column, values, units[column.kind]) for column, values in pairs]
    lines = [
        Line(
            f"{id}-{index}",
            plain(row.values[0]),
            plain(row.full) if row.full and row.full != row.values[0] else "",
            row.extras,
            [cells[index] for _, cells in made[1:]],
            row.depth,
        )
        for index, row in enumerate(shown)
    ]
    return Table(
        id,
        title,
        note,
        [head for head, _ in made],
        lines,
        len(rows),
        any(row.depth for row in shown),
        {row.key: line.anchor for row, line in zip(reversed(shown), reversed(lines), strict=True)},
    )


def _column(column: Column, values: list[Value], unit: tuple[float, str]) -> tuple[Head, list[Cell]]:
    top = max(map(abs, _numbers(values)), default=0.0)
    digits = _digits(column.kind, top / unit[0])
    cells = [Cell(_text(value, unit[0], digits), _width(value, top) if column.bar else 0) for value in values]
    left = column.kind in ("text", "code")
    return Head(column.title, unit[1], left, column.kind == "code", column.note), cells


def _numbers(values: Iterable[Value]) -> list[float]:
    return [float(value) for value in values if isinstance(value, int | float)]


def _units(columns: Iterable[tuple[Column, list[Value]]]) -> dict[Kind, tuple[float, str]]:
    """One unit for all columns of a kind: they are compared with each other."""
    seen: dict[Kind, list[float]] = {}
    for column, values in columns:
        seen.setdefault(column.kind, []).extend(abs(number) for number in _numbers(values) if number)
    return {kind: _unit(kind, sorted(numbers) or [0.0]) for kind, numbers in seen.items()}


def _unit(kind: Kind, numbers: list[float]) -> tuple[float, str]:
    """The largest one's; short times get the median's where the largest is not too long in it."""
    if kind in ("time", "short"):
        median, top = numbers[len(numbers) // 2], numbers[-1]
        factor, unit = scale(min(top, 59e9) / 1e9, "s")
        if kind == "short" and top < 1e5 * (fine := scale(min(median, 59e9) / 1e9, "s"))[0] * 1e9:
            factor, unit = fine
        return factor * 1e9, unit
    if kind in ("bytes", "rate"):
        return scale(numbers[-1], "B" if kind == "bytes" else "B/s")
    return (0.01, "%") if kind == "share" else (1.0, "")


def _digits(kind: Kind, top: float) -> int:
    if kind == "count":
        return 0
    if kind == "share":
        return 0 if top >= 10 else 1
    return 3 if top < 10 else 2 if top < 100 else 1


def _text(value: Value, factor: float, digits: int) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return plain(value)
    shown = value / factor + 0.0  # no negative zero
    least = 10.0**-digits
    if 0 < abs(shown) < least / 2:
        return f"{'<' if shown > 0 else '>-'}{least:.{digits}f}"
    return f"{shown:,.{digits}f}"


def _width(value: Value, top: float) -> int:
    return round(100 * abs(value) / top) if isinstance(value, int | float) and top else 0
