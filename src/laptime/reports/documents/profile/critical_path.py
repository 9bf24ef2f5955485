"""The critical path: its kinds as bars, what is on it as a table."""

from __future__ import annotations

from laptime.records.profile import Profile
from laptime.records.tables import CriticalPath, PathRow
from laptime.reports import document as doc
from laptime.reports.documents.profile import words
from laptime.reports.documents.profile.charts import bar
from laptime.reports.documents.profile.fields import Field, table
from laptime.reports.documents.profile.tables import frames

KINDS = {
    "kernel": ("kernels", "kernel"),
    "communication": ("collectives", "communication"),
    "copy": ("copies", "memcpy"),
    "gap": ("gaps between activities", "memset"),
    "latency": ("launch latency", "memset"),
    "launch": ("runtime calls", "runtime"),
    "synchronisation": ("after a wait for the device", "waiting"),
    "data": ("waiting for data", "dataloader"),
    "operator": ("operators on the host", "cpu"),
    "python": ("Python", "python"),
    "unrecorded": ("not recorded", "other"),
}
"""What people read for each kind, and the class of its colour."""

_LEAST = 0.05
"""Share of the step below which a kind is on the page only."""

_FOLDED = 8
"""Rows of the table in Markdown; a terminal has the bars alone, with what takes most of each kind."""


def section(profile: Profile) -> doc.Section:
    """Empty for a file without one."""
    path = profile.critical_path
    note = "The chain of work and waits without a gap that decides how long the step takes."
    blocks = [_bars(path), _table(path)] if path else []
    title = "Critical path"
    return doc.Section(id="critical-path", title=title, note=note, blocks=blocks, folded=True)


def _bars(path: CriticalPath) -> doc.Bars:
    rows = []
    for kind, ns in path.kinds_ns.items():
        name, colour = _kind(kind)
        rows.append(bar(colour, name, ns, path.total_ns, note=_longest(path, kind), least=_LEAST))
    note = f"decides {words.time(path.total_ns)} of step {path.step}"
    return doc.Bars(title="path", note=note, rows=rows, whole=path.total_ns / 1e9, stacked=True)


def _kind(kind: str) -> tuple[str, str]:
    """Its name and colour; a kind of a newer laptime goes by its own."""
    return KINDS.get(kind, (kind, "other"))


def _longest(path: CriticalPath, kind: str) -> str:
    """The user's line of what takes most of a kind; its name where no line is known."""
    row = next((row for row in path.rows if row.kind == kind and row.name), None)
    if row is None:
        return ""
    return words.place(row.stack) or _name(row, 24)


def _table(path: CriticalPath) -> doc.Table:
    fields = [
        Field("on the critical path", _name, "code", brief=True),
        Field("kind", lambda row: _kind(row.kind)[0], brief=True),
        Field("time", "total_ns", "time", bar=True, brief=True),
        Field("share", lambda row: row.total_ns / (path.total_ns or 1), "share", brief=True),
        Field("parts", "parts", "count", "stretches of the path"),
        Field("longest", "longest_ns", "short"),
        Field("where", lambda row: words.place(row.stack), "code", "of the longest", brief=True),
    ]
    extras = lambda row, index: frames(row.stack)  # noqa: E731
    return table("path", fields, path.rows, full=_full, extras=extras, folded=_FOLDED)


def _name(row: PathRow, width: int = 48) -> str:
    on_device = row.kind in ("kernel", "communication", "copy")
    return (words.kernel if on_device else words.operator)(row.name, width) if row.name else "others"


def _full(row: PathRow) -> str:
    return words.shortened(row.name, 300)
