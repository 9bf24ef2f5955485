"""Tables about several profiles: the ranks of a job, their collectives, differences to another job."""

from collections.abc import Callable
from functools import partial
from operator import attrgetter, itemgetter

from laptime.records.overview import RankRow
from laptime.records.profile import Profile
from laptime.reports.document import Table
from laptime.reports.documents.profile import words
from laptime.reports.fields import Field, table

_LITTLE = 0.005  # what explains less of a difference is not among its main reasons


def ranks(profile: Profile) -> list[Table]:
    """One row a rank, times per step."""
    fields = [
        Field("rank", lambda row: str(row.rank), brief=True),
        Field("steps", "steps", "count"),
        Field("step", "step_ns", "time", bar=True, brief=True),
        Field("compute", _per_step("compute_ns"), "time", brief=True),
        Field("communication", _per_step("communication_ns"), "time", brief=True),
        Field("exposed", _per_step("exposed_communication_ns"), "time", "with no compute", brief=True),
        Field("idle", _per_step("idle_ns"), "time", brief=True),
        Field("data wait", _per_step("data_wait_ns"), "time", brief=True),
        Field("waiting", _per_step("waiting_ns"), "time", "in collectives, for later ranks", brief=True),
        Field("transfer", _per_step("transfer_ns"), "time", "the rest of its collectives"),
        Field("last", "last_arrivals", "count", "collectives that it was the last to reach", brief=True),
        Field("clock moved by", "clock_offset_ns", "short", "to bring the ranks onto one clock"),
    ]
    late = {straggler.rank for straggler in profile.stragglers}
    ranked = sorted(profile.ranks, key=lambda row: (row.rank not in late, -row.step_ns))
    first = ranked[:8]
    full = attrgetter("file")
    return [table("ranks", fields, profile.ranks, full=full, brief=lambda row: row in first, folded=64)]


def _per_step(name: str) -> Callable[[RankRow], float | None]:
    def value(row: RankRow) -> float | None:
        total = getattr(row, name)
        return None if total is None else total / max(row.steps, 1)

    return value


def collectives(profile: Profile) -> list[Table]:
    """One row a collective; those that cost most waiting come first."""
    fields = [
        Field("collective", lambda row: words.operator(row.name, 40), "code"),
        Field("group", "group", "code"),
        Field("at", "start_ns", "time", "since the first event"),
        Field("bytes", "bytes", "bytes"),
        Field("type", "dtype", "code"),
        Field("latency", "latency_ns", "short", "shortest duration over ranks: the transfer alone"),
        Field("skew", "skew_ns", "short", "start of the last rank after that of the first"),
        Field("waiting", "waiting_ns", "short", "of all ranks given, together", bar=True),
        Field("first", lambda row: str(row.first), note="rank"),
        Field("last", lambda row: str(row.last), note="rank"),
        Field("bus bandwidth", "bus_bandwidth", "rate", "as nccl-tests define it"),
    ]
    rows = sorted(profile.collectives, key=lambda row: -row.waiting_ns)
    return [table("collectives", fields, rows, most=200)]


def differences(profile: Profile) -> list[Table]:
    """Tabulate the main causes of the difference, then every part, cause, operator and kernel; per step."""
    against = profile.against
    if against is None:
        return []
    parts = [(words.PARTS.get(row.name, row.name), "", row) for row in against.breakdown]
    causes = [(words.CAUSES.get(row.name, row.name), "", row) for row in against.idle]
    operators = [(words.operator(row.name), row.name, row) for row in against.operators]
    kernels = [(words.kernel(row.name), row.name, row) for row in against.kernels]
    main = [
        change
        for change in [*parts, *operators]
        if change[2].change != "same" and (change[2].explains is None or abs(change[2].explains) >= _LITTLE)
    ]
    main.sort(key=lambda change: -abs(change[2].delta_ns))
    views = {
        "changes": ("what explains most", main),
        "changed-breakdown": ("parts of the step", parts),
        "changed-idle": ("idle causes", causes),
        "changed-operators": ("operators", operators),
        "changed-kernels": ("kernels", kernels),
    }
    make = partial(table, fields=_CHANGES, key=lambda row: row[2].name, full=itemgetter(1), most=150)
    return [
        make(id, rows=rows, title=title, brief=8 if id == "changes" else 0)
        for id, (title, rows) in views.items()
    ]


# Rows are (name, whole name, change).
_CHANGES = [
    Field("per step", itemgetter(0), "code", brief=True),
    Field("before", lambda row: None if row[2].change == "added" else row[2].before_ns, "time", brief=True),
    Field("after", lambda row: None if row[2].change == "gone" else row[2].after_ns, "time", brief=True),
    Field("change", lambda row: row[2].delta_ns, "change", bar=True, brief=True),
    Field("explains", lambda row: row[2].explains, "share", "of the whole difference", brief=True),
    Field("is", lambda row: row[2].change, brief=True),
    Field("calls before", lambda row: row[2].before_calls or None, "number"),
    Field("calls after", lambda row: row[2].after_calls or None, "number"),
]
