"""Tables that speak of several: ranks and their collectives, and the differences to another profile."""

from __future__ import annotations

from laptime.records.difference import ChangedRow
from laptime.records.profile import Profile
from laptime.reports._profile import words
from laptime.reports._profile.grid import Column, Row, Table, Value, table
from laptime.reports._profile.rows import Wanted


def ranks(profile: Profile, wanted: Wanted) -> list[Table]:
    """One row a rank, times per step."""
    columns = [
        Column("rank"),
        Column("steps", "count"),
        Column("step", "time", bar=True),
        Column("compute", "time"),
        Column("communication", "time"),
        Column("exposed", "time", "communication while no compute kernel ran"),
        Column("waiting", "time", "in collectives, for ranks that came later"),
        Column("transfer", "time", "the rest of its collectives"),
        Column("idle", "time"),
        Column("data wait", "time"),
        Column("last to arrive", "count", "collectives that it was the last to reach"),
        Column("clock moved by", "short", "to bring the ranks onto one clock"),
    ]
    rows = []
    for row in profile.ranks:
        per = max(row.steps, 1)
        values: list[Value] = [str(row.rank), row.steps, row.step_ns]
        values += [row.compute_ns / per, row.communication_ns / per, row.exposed_communication_ns / per]
        values += [_each(row.waiting_ns, per), _each(row.transfer_ns, per)]
        values += [row.idle_ns / per, row.data_wait_ns / per, row.last_arrivals, row.clock_offset_ns]
        rows.append(Row(str(row.rank), values, full=row.file))
    return [table("ranks", columns, rows, wanted=wanted("ranks"))] if rows else []


def _each(total: int | None, steps: int) -> float | None:
    return None if total is None else total / steps


def collectives(profile: Profile) -> list[Table]:
    """One row a collective; those that cost most waiting come first."""
    columns = [
        Column("collective", "code"),
        Column("group", "code"),
        Column("at", "time", "since the first event"),
        Column("bytes", "bytes"),
        Column("type", "code"),
        Column("latency", "short", "shortest duration over ranks: the transfer once everybody is there"),
        Column("skew", "short", "start of the last rank after that of the first"),
        Column("waiting", "short", "of all ranks together", bar=True),
        Column("first", "text", "rank"),
        Column("last", "text", "rank"),
        Column("bus bandwidth", "rate", "as nccl-tests define it"),
    ]
    rows = [
        Row(
            str(index),
            [
                words.operator(row.name, 40),
                row.group,
                row.start_ns,
                row.bytes,
                row.dtype,
                row.latency_ns,
                row.skew_ns,
                row.waiting_ns,
                str(row.first),
                str(row.last),
                row.bus_bandwidth,
            ],
        )
        for index, row in sorted(enumerate(profile.collectives), key=lambda pair: -pair[1].waiting_ns)
    ]
    return [table("collectives", columns, rows, most=200)] if rows else []


def differences(profile: Profile) -> list[Table]:
    """What changed, by what explains most of it."""
    seen = profile.against
    if seen is None:
        return []
    columns = [
        Column("per step", "code"),
        Column("is"),
        Column("before", "time"),
        Column("after", "time"),
        Column("difference", "time", bar=True),
        Column("explains", "share", "of the whole difference of the step"),
        Column("calls before", "number"),
        Column("calls after", "number"),
    ]
    named: tuple[tuple[str, str, dict[str, str] | None, list[ChangedRow]], ...] = (
        ("breakdown", "parts of the step", words.PARTS, seen.breakdown),
        ("idle", "idle causes", words.CAUSES, seen.idle),
        ("operators", "operators", {}, seen.operators),
        ("kernels", "kernels", None, seen.kernels),
    )
    return [
        table(f"changed-{id}", columns, [_changed(row, names) for row in rows], title=title, most=150)
        for id, title, names, rows in named
        if rows
    ]


def _changed(row: ChangedRow, names: dict[str, str] | None) -> Row:
    name = words.kernel(row.name) if names is None else names.get(row.name, words.operator(row.name))
    values: list[Value] = [name, row.change, row.before_ns, row.after_ns, row.delta_ns, row.explains]
    calls: list[Value] = [row.before_calls or None, row.after_calls or None]
    return Row(row.name, values + calls, full=row.name if names in (None, {}) else "")
