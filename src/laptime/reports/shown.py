"""The parts of a document that a medium shows, at the right detail and with content, and values as texts.

A raw value stands alone with its unit, or in a column that has one unit for all its cells; columns of one
kind share their unit, so that numbers can be compared by their length."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from msgspec.structs import replace

from laptime.kit.units import percent, scale, show
from laptime.reports import document as doc
from laptime.reports._words import printable
from laptime.reports.document import Cell, Column, Kind, Value

Medium = Literal["terminal", "markdown", "page", "csv"]
_DETAILS: dict[Medium, tuple[doc.Detail, ...]] = {
    "terminal": ("brief", "text"),
    "markdown": ("brief", "text", "folded"),
    "page": ("brief", "folded", "page"),
    "csv": ("brief", "text", "folded", "page"),
}
_UNITS: dict[Kind, str] = {"time": "s", "short": "s", "change": "s", "bytes": "B", "rate": "B/s"}
NANOSECONDS: tuple[Kind, ...] = ("time", "short", "change")


def sections(document: doc.Document, medium: Medium) -> Iterator[doc.Section]:
    """The sections with content, holding only what the medium shows."""
    for section in document.sections:
        if section.detail in _DETAILS[medium] and (shown := blocks(section.blocks, medium)):
            yield replace(section, blocks=shown)


def blocks(blocks: Iterable[doc.Block], medium: Medium) -> list[doc.Block]:
    """The blocks with content, holding only what the medium shows."""
    shown = [_trim(block, medium) for block in blocks if block.detail in _DETAILS[medium]]
    return [block for block in shown if _has_content(block)]


def _trim(block: doc.Block, medium: Medium) -> doc.Block:
    details = _DETAILS[medium]
    if isinstance(block, doc.Table):
        rows = [row for row in block.rows if row.detail in details]
        places = [
            at
            for at, column in enumerate(block.columns)
            if column.detail in details and (at == 0 or any(_says_something(row.cells[at]) for row in rows))
        ]
        if len(places) < len(block.columns):
            rows = [replace(row, cells=[row.cells[at] for at in places]) for row in rows]
        columns = [block.columns[at] for at in places]
        return replace(block, columns=columns, rows=rows, total=max(block.total, len(block.rows)))
    if isinstance(block, doc.Views):
        tables = [table for table in blocks(block.tables, medium) if isinstance(table, doc.Table)]
        return replace(block, tables=tables[:1] if medium == "terminal" else tables)
    if isinstance(block, doc.Facts):
        return replace(block, rows=[row for row in block.rows if row[1]])
    if isinstance(block, doc.Bars):
        return replace(block, rows=[bar for bar in block.rows if bar.detail in details])
    if isinstance(block, doc.Panels | doc.Group | doc.Folded):
        return replace(block, blocks=blocks(block.blocks, medium))
    return block


def _says_something(cell: doc.Value | doc.Cell) -> bool:
    return isinstance(cell, doc.Cell) or cell not in (None, "", 0)


def _has_content(block: doc.Block) -> bool:
    """Charts, findings and the like always have; the others if what they hold is not empty."""
    return all(getattr(block, name, True) for name in ("rows", "tables", "blocks", "text"))


def title(column: Column) -> str:
    """A column's title with its regime."""
    return f"{column.title} ({column.regime})" if column.regime else column.title


def alone(kind: Kind, value: Value | Cell) -> str:
    """A value with its own unit and three figures, `262 ms`; `-` if there is none."""
    if isinstance(value, Cell):
        return value.text
    if value is None or value == "":
        return "-"
    if isinstance(value, str):
        return printable(value)
    if kind in NANOSECONDS:
        return _sign(value, plus=kind == "change") + show(abs(value) / 1e9, "s")
    if kind == "share":
        return share(value)
    if kind in _UNITS:
        return f"{value:.0f} B" if kind == "bytes" and abs(value) < 1024 else show(value, _UNITS[kind])
    return f"{value:,}" if isinstance(value, int) else f"{value:,.3g}"


def share(part: float) -> str:
    """A share as people read it: `0 %` for nothing, and no exponent for tiny ones."""
    if 0 < abs(part) < 1e-4:
        return "<0.01 %"
    return _sign(part) + percent(abs(part)) if part else "0 %"


def _sign(value: float, *, plus: bool = False) -> str:
    return "-" if value < 0 else "+" if plus and value > 0 else ""


class Texts(NamedTuple):
    """A column as it is shown; `bars` are percents of the largest value, 0 for none."""

    unit: str
    cells: list[str]
    bars: list[int]


def in_columns(columns: Sequence[Column], rows: Sequence[Sequence[Value | Cell]]) -> list[Texts]:
    """The texts of each column, with one unit for all columns of a kind; ready cells stay as they are."""
    values = [[row[index] for row in rows] for index in range(len(columns))]
    numbers: dict[Kind, list[float]] = {}
    for column, cells in zip(columns, values, strict=True):
        numbers.setdefault(column.kind, []).extend(abs(number) for cell in cells if (number := _number(cell)))
    units = {kind: _unit(kind, sorted(known) or [0.0]) for kind, known in numbers.items()}
    return [_column(column, cells, units[column.kind]) for column, cells in zip(columns, values, strict=True)]


def _column(column: Column, values: list[Value | Cell], unit: tuple[float, str]) -> Texts:
    numbers = [_number(value) for value in values]
    top = max((abs(number) for number in numbers if number is not None), default=0.0)
    # Calls that are counted need no decimals, their mean per step does.
    is_whole = column.kind == "number" and all(number is None or number.is_integer() for number in numbers)
    digits = 0 if is_whole else _digits(column.kind, top / unit[0])
    texts = [_text(value, unit[0], digits, plus=column.kind == "change") for value in values]
    bars = [round(100 * abs(number) / top) if number and column.bar else 0 for number in numbers]
    return Texts(unit[1], texts, bars)


def _number(value: Value | Cell) -> float | None:
    number = value.value if isinstance(value, Cell) else value
    return float(number) if isinstance(number, int | float) else None


def _unit(kind: Kind, numbers: list[float]) -> tuple[float, str]:
    """The largest one's; short times get the median's if the largest is not too long in it."""
    if kind in NANOSECONDS:
        median, top = numbers[len(numbers) // 2], numbers[-1]
        factor, unit = scale(min(top, 59e9) / 1e9, "s")
        if kind == "short" and top < 1e5 * (fine := scale(min(median, 59e9) / 1e9, "s"))[0] * 1e9:
            factor, unit = fine
        return factor * 1e9, unit
    if kind in ("bytes", "rate"):
        return scale(numbers[-1], _UNITS[kind])
    return (0.01, "%") if kind == "share" else (1.0, "")


def _digits(kind: Kind, top: float) -> int:
    if kind == "count":
        return 0
    if kind == "share":
        return 0 if top >= 10 else 1
    return 3 if top < 10 else 2 if top < 100 else 1


def _text(value: Value | Cell, factor: float, digits: int, *, plus: bool) -> str:
    if isinstance(value, Cell):
        return value.text
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    scaled = value / factor + 0.0  # no negative zero
    least = 10.0**-digits
    if 0 < abs(scaled) < least / 2:
        return f"{'<' if scaled > 0 else '>-'}{least:.{digits}f}"
    return f"{scaled:{'+' if plus and scaled else ''},.{digits}f}"
