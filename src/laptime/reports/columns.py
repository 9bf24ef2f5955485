"""Raw values of tables as text: alone with their unit, or in columns that have one unit for all their cells.

Columns of one kind share their unit, so that numbers can be compared by their length.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from laptime.kit.units import percent, scale, show
from laptime.reports._words import printable
from laptime.reports.document import Cell, Column, Kind, Value

_UNITS: dict[Kind, str] = {"time": "s", "short": "s", "change": "s", "bytes": "B", "rate": "B/s"}
NANOSECONDS: tuple[Kind, ...] = ("time", "short", "change")


def alone(kind: Kind, value: Value | Cell) -> str:
    """A value with its own unit and three figures, `262 ms`; `-` where there is none."""
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
    digits = 0 if _is_whole(column, numbers) else _digits(column.kind, top / unit[0])
    texts = [_text(value, unit[0], digits, plus=column.kind == "change") for value in values]
    bars = [round(100 * abs(number) / top) if number and column.bar else 0 for number in numbers]
    return Texts(unit[1], texts, bars)


def _is_whole(column: Column, numbers: list[float | None]) -> bool:
    """Calls that are counted need no decimals, their mean per step does."""
    return column.kind == "number" and all(number is None or number.is_integer() for number in numbers)


def _number(value: Value | Cell) -> float | None:
    number = value.value if isinstance(value, Cell) else value
    return float(number) if isinstance(number, int | float) else None


def _unit(kind: Kind, numbers: list[float]) -> tuple[float, str]:
    """The largest one's; short times get the median's where the largest is not too long in it."""
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
