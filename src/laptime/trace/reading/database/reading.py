"""One SQLite file of a profiler into the columns that Kineto's traces have."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

from laptime.kit.errors import UsageError
from laptime.trace.columns import Trace
from laptime.trace.reading import assemble
from laptime.trace.reading.database import nsys, rocpd, tables

SUFFIXES = (".sqlite", ".sqlite3", ".db")
_TOOLS = {"nsys": nsys, "rocpd": rocpd}
_NEXT = "nsys export --type sqlite REPORT.nsys-rep, or rocprofv3 --sys-trace --output-format rocpd"


def read(path: Path) -> Trace:
    """An export of Nsight Systems, or a database of rocprof.

    Raises:
        UsageError: it cannot be opened, is damaged, is of another tool, or has no events.
    """
    try:
        size = path.stat().st_size
        with tables.opened(path) as database:
            tool = next((name for name, each in _TOOLS.items() if each.is_own(database.names)), "")
            if not tool:
                why = "its tables are neither those of Nsight Systems nor those of rocpd"
                raise UsageError(f"{path} is no profile", why=why, next=_NEXT)
            rows, about = _TOOLS[tool].read(database)
    except OSError as error:
        raise UsageError(f"{path} cannot be read", why=error.strerror or str(error), next=_NEXT) from error
    except (sqlite3.Error, UnicodeDecodeError) as error:  # the latter in sqlite3's own message of damage
        raise UsageError(f"{path} cannot be read", why=str(error), next=_NEXT) from error
    if not rows.events:
        why = "its tables of calls, kernels, copies and ranges are empty"
        raise UsageError(f"{path} has no events", why=why, next=_NEXT)
    return replace(assemble.trace([rows.part(size)], about, name=path.name), format=tool)
