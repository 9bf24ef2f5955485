"""A SQLite file of a profiler: opened read-only, its tables by name, columns that a version may lack."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from laptime.trace.columns import NONE, Ints


class Tables:
    """What is in the file."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        rows = connection.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")
        self.names = {name for (name,) in rows}

    def columns(self, table: str) -> set[str]:
        """Names of the columns; none of a table that is not there."""
        return {row[1] for row in self._connection.execute(f"PRAGMA table_info({quoted(table)})")}

    def rows(self, table: str, wanted: Sequence[str]) -> list[tuple[Any, ...]]:
        """These columns of every row; None for a column that the table lacks, no row of a missing table."""
        known = self.columns(table)
        if not known:
            return []
        chosen = ", ".join(quoted(name) if name in known else "NULL" for name in wanted)
        query = f"SELECT {chosen} FROM {quoted(table)}"  # noqa: S608 (every name is quoted)
        return self._connection.execute(query).fetchall()

    def whole(self, table: str, wanted: Sequence[str]) -> dict[str, Ints]:
        """The same as int64 columns; NONE for what is no whole number."""
        rows = self.rows(table, wanted)
        try:
            matrix = np.array(rows, np.int64).reshape(len(rows), len(wanted))
        except (TypeError, ValueError, OverflowError):
            cells = [[_whole(value) for value in row] for row in rows]
            matrix = np.array(cells, np.int64).reshape(len(rows), len(wanted))
        return {name: np.ascontiguousarray(matrix[:, at]) for at, name in enumerate(wanted)}


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Tables]:
    """The file, read-only and never locked for others.

    Raises:
        sqlite3.Error: it is no SQLite file, or it is damaged.
    """
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)
    connection.text_factory = lambda data: data.decode(errors="replace")
    try:
        yield Tables(connection)
    finally:
        connection.close()


def quoted(name: str) -> str:
    """A name of the file's own, fit for a query."""
    return '"' + name.replace('"', '""') + '"'


def mapped(values: Ints, numbers: Mapping[int, int]) -> Ints:
    """Each value's number; NONE of one that has none."""
    distinct, at = np.unique(values, return_inverse=True)
    return np.array([numbers.get(value, NONE) for value in distinct.tolist()], np.int64)[at].reshape(-1)


def triples(columns: Mapping[str, Ints], names: Sequence[str]) -> list[str]:
    """Grids and blocks as Kineto writes them: `[4, 1, 1]`."""
    return [str(list(row)) for row in zip(*(columns[name].tolist() for name in names), strict=True)]


def _whole(value: Any) -> int:
    return value if isinstance(value, int) and -(1 << 63) <= value < 1 << 63 else NONE
