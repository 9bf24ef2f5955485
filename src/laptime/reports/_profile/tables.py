"""The tables of a profile that fit on a page: the first rows of each, as texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from laptime.records.difference import ChangedRow
from laptime.records.profile import Profile
from laptime.records.ranks import RankRow
from laptime.reports import _words
from laptime.reports._profile import words

_NAME = 60
_ASIDE = 0.005  # what explains less of a difference is left to the page


class Table(Struct, frozen=True, kw_only=True):
    """Columns and rows of text; the first column is a name, all others are numbers.

    Attributes:
        left: titles of columns that are words.
        rows: cells as they are shown.
        all: number of rows that there are.
    """

    title: str
    columns: list[str]
    rows: list[list[str]]
    left: list[str]
    all: int


def tables(profile: Profile, *, operators: int = 8, kernels: int = 5, ranks: int = 8) -> list[Table]:
    """Operators, kernels, ranks: those that the profile has."""
    made = [_operators(profile, operators), _kernels(profile, kernels), _ranks(profile, ranks)]
    return [table for table in made if table.rows]


def _operators(profile: Profile, most: int) -> Table:
    device = any(row.device_self_ns for row in profile.operators)
    own = "device_self_ns" if device else "host_self_ns"
    rows = [row for row in profile.operators if getattr(row, own) > 0]
    total = sum(getattr(row, own) for row in rows)
    where = "device" if device else "CPU"
    columns = [
        "operator",
        f"{where} self",
        "share",
        f"{where} total",
        *(["host self"] if device else []),
        "calls",
    ]
    made = [
        [
            words.operator(row.name, _NAME),
            words.time(getattr(row, own)),
            words.share(getattr(row, own), total),
            words.time(row.device_total_ns if device else row.host_total_ns),
            *([words.time(row.host_self_ns)] if device else []),
            f"{row.calls:,}",
        ]
        for row in rows[:most]
    ]
    return _table("operators", columns, made, rows)


def _kernels(profile: Profile, most: int) -> Table:
    total = sum(row.total_ns for row in profile.kernels)
    cores = any(row.tensor_cores for row in profile.kernels)
    columns = ["kernel", "total", "share", "calls", "mean", *(["tensor cores"] if cores else [])]
    made = [
        [
            words.kernel(row.name, 72),
            words.time(row.total_ns),
            words.share(row.total_ns, total),
            f"{row.calls:,}",
            words.time(row.mean_ns),
            *(["yes" if row.tensor_cores else "-"] if cores else []),
        ]
        for row in profile.kernels[:most]
    ]
    return _table("kernels", columns, made, profile.kernels, left=["tensor cores"])


def _ranks(profile: Profile, most: int) -> Table:
    columns = ["rank", "step", "compute", "communication", "exposed", "idle", "data wait", "waiting", "last"]
    made = [
        [
            str(row.rank),
            words.time(row.step_ns),
            *(
                words.time(words.each(ns, row.steps))
                for ns in (row.compute_ns, row.communication_ns, row.exposed_communication_ns, row.idle_ns)
            ),
            words.time(words.each(row.data_wait_ns, row.steps)),
            words.time(None if row.waiting_ns is None else words.each(row.waiting_ns, row.steps)),
            "-" if row.last_arrivals is None else f"{row.last_arrivals:,}",
        ]
        for row in sorted(_telling(profile)[:most], key=lambda row: row.rank)
    ]
    return _table("ranks", columns, made, profile.ranks)


def _telling(profile: Profile) -> list[RankRow]:
    """The ranks, those first that others wait for, then those with the longest steps."""
    late = {straggler.rank for straggler in profile.stragglers}
    return sorted(profile.ranks, key=lambda row: (row.rank not in late, -row.step_ns))


def difference(profile: Profile, most: int = 8) -> Table | None:
    """What explains most of the difference to the other profile; times are per step."""
    seen = profile.against
    if seen is None:
        return None
    named = [(words.PARTS.get(row.name, row.name), row) for row in seen.breakdown]
    named += [(row.name, row) for row in seen.operators]
    told = [(name, row) for name, row in named if row.change != "same" and _tells(row)]
    told.sort(key=lambda each: -abs(each[1].delta_ns))
    made = [
        [
            words.operator(name, _NAME),
            _time(row, row.before_ns, "added"),
            _time(row, row.after_ns, "gone"),
            _signed(row.delta_ns),
            "-" if row.explains is None else words.percent(row.explains),
            row.change,
        ]
        for name, row in told[:most]
    ]
    return _table(
        "difference", ["per step", "before", "after", "change", "explains", "is"], made, told, ["is"]
    )


def _tells(row: ChangedRow) -> bool:
    return row.explains is None or abs(row.explains) >= _ASIDE


def _time(row: ChangedRow, ns: int, absent: str) -> str:
    return "-" if row.change == absent else words.time(ns)


def _signed(ns: int) -> str:
    return f"{'+' if ns > 0 else '-' if ns < 0 else ''}{words.time(abs(ns))}"


def _table(
    title: str, columns: list[str], made: list[list[str]], rows: Sequence[Any], left: Sequence[str] = ()
) -> Table:
    return Table(
        title=title,
        columns=columns,
        rows=[[_words.printable(cell) for cell in row] for row in made],
        left=[columns[0], *left],
        all=len(rows),
    )
