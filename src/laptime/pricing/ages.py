"""How old a price is, and from which age on it is a doubtful one."""

from __future__ import annotations

import re
from datetime import date

from laptime.records.cost import FlexShape, Machine

LARGE = frozenset({"aws", "azure", "gcp", "oci"})
"""Their list prices rarely change; those of small sellers do every few weeks."""

_DAYS = {True: 180, False: 30}
_DATE = re.compile(r"(\d{4})(?:-(\d{2})(?:-(\d{2}))?)?", re.ASCII)


def day(seen: str) -> date | None:
    """The first day that a date may mean (`2026` is its first of January); None where it is none."""
    match = _DATE.fullmatch(seen)
    if match is None:
        return None
    try:
        return date(int(match[1]), int(match[2] or 1), int(match[3] or 1))
    except ValueError:
        return None


def days(row: Machine | FlexShape, today: date) -> int | None:
    """Age of a price in days, at most; None where nobody noted when it was seen."""
    first = day(row.seen)
    return None if first is None else (today - first).days


def words(row: Machine | FlexShape, today: date) -> str:
    """`seen 2026-07-20, 125 days ago`; empty for a price that was typed."""
    age = days(row, today)
    if row.origin == "flag":
        return ""
    if age is None:
        return "nobody noted when it was seen"
    most = "up to " if len(row.seen) < len("2026-01-01") else ""
    return f"seen {row.seen}, {most}{age} day{'' if age == 1 else 's'} ago"


def warning(row: Machine | FlexShape, today: date) -> str:
    """A sentence where a price is older than prices of its seller stay true; "" where it is not."""
    age, most = days(row, today), _DAYS[row.provider in LARGE]
    if row.origin == "flag" or age is None or age <= most:
        return ""
    return f"the price of {row.name} is {age} days old ({row.seen}); beyond {most} days look it up again"
