"""A SQLite file of a profiler: opened read-only, its tables by name, ranges that a program marked.

Columns that a version lacks are None. Ranges of NVTX and ROCTX become what Kineto would have written:
PyTorch's `emit_nvtx` names operators `aten::mm, seq = 7, op_id = 12, sizes = [[4, 8], [8, 2]]`; steps are
ranges called `step 3`, `iteration 3`, `batch 3`, `ProfilerStep#3`, or `step` again and again.
Source: torch/csrc/autograd/profiler_legacy.cpp (names); the words for steps are our own choice."""

import contextlib
import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from laptime.trace.columns import NONE, HostKind, Ints
from laptime.trace.reading.assemble import Rows


class Tables:
    """The tables of the file."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        rows = connection.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")
        self.names = {name for (name,) in rows}

    def columns(self, table: str) -> set[str]:
        """Names of the columns; none of a table that is not there."""
        return {row[1] for row in self._connection.execute(f"PRAGMA table_info({quote(table)})")}

    def rows(self, table: str, wanted: Sequence[str]) -> list[tuple[Any, ...]]:
        """These columns of every row; None for a column that the table lacks, no row of a missing table."""
        known = self.columns(table)
        if not known:
            return []
        chosen = ", ".join(quote(name) if name in known else "NULL" for name in wanted)
        query = f"SELECT {chosen} FROM {quote(table)}"  # noqa: S608 (every name is quoted)
        return self._connection.execute(query).fetchall()

    def whole(self, table: str, wanted: Sequence[str]) -> dict[str, Ints]:
        """The same as int64 columns; NONE for what is no whole number."""
        rows = self.rows(table, wanted)
        try:
            matrix = np.array(rows, np.int64).reshape(len(rows), len(wanted))
        except (TypeError, ValueError, OverflowError):
            fits = range(-(1 << 63), 1 << 63)
            cells = [[v if isinstance(v, int) and v in fits else NONE for v in row] for row in rows]
            matrix = np.array(cells, np.int64).reshape(len(rows), len(wanted))
        return {name: np.ascontiguousarray(matrix[:, index]) for index, name in enumerate(wanted)}


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Tables]:
    """The file, read-only and never locked for others.
    Raises sqlite3.Error: it is no SQLite file, or it is damaged."""
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)
    connection.text_factory = lambda data: data.decode(errors="replace")
    try:
        yield Tables(connection)
    finally:
        connection.close()


def quote(name: str) -> str:
    """A name of the file's own, fit for a query."""
    return '"' + name.replace('"', '""') + '"'


def locate(values: Ints, numbers: Mapping[int, int]) -> Ints:
    """Each value's number; NONE of one that has none."""
    distinct, at = np.unique(values, return_inverse=True)
    return np.array([numbers.get(value, NONE) for value in distinct.tolist()], np.int64)[at].reshape(-1)


def triples(columns: Mapping[str, Ints], names: Sequence[str]) -> list[str]:
    """Grids and blocks as Kineto writes them: `[4, 1, 1]`."""
    return [str(list(row)) for row in zip(*(columns[name].tolist() for name in names), strict=True)]


_OPERATOR = re.compile(r"^(?:\w+::\w|\w+Backward\d*\b)")
_DETAILS = re.compile(r", (?:seq|op_id|op_ids|sizes|input_op_ids) = ")
_SEQUENCE = re.compile(r", seq = (\d{1,15})")
_SIZES = re.compile(r", sizes = (\[.*\])")
_STEP = re.compile(
    r"^((?:(?:profiler|train(?:ing)?|inference|decode)[ _]?)?(?:step|iteration|iter|batch))"
    r"[ _#:=-]*(\d{1,15})?$",
    re.IGNORECASE,
)


class Mark(NamedTuple):
    """A range: ns, the thread as the file calls it, its text."""

    start: int
    end: int
    thread: int
    text: str


def add(rows: Rows, ranges: Sequence[Mark], threads: Callable[[Ints], Ints]) -> None:
    """The ranges as rows of the host, steps and operators told apart."""
    ranges = [mark for mark in ranges if mark.text]
    if not ranges:
        return
    # The ranges that are steps, `ProfilerStep#N`: those of the word on the thread that has most of them.
    words = [(mark, found) for mark in ranges if (found := _STEP.match(mark.text))]
    counts = Counter((found[1].lower(), mark.thread) for mark, found in words)
    if not counts or max(counts.values()) < 2:
        steps = {}
    else:
        chosen = counts.most_common(1)[0][0]
        own = sorted((mark, found) for mark, found in words if (found[1].lower(), mark.thread) == chosen)
        steps = {mark: f"ProfilerStep#{found[2] or number}" for number, (mark, found) in enumerate(own)}
    kinds, names, shapes, sequences = [], [], [], []
    for mark in ranges:
        operator = _OPERATOR.match(mark.text) is not None
        sizes, sequence = _SIZES.search(mark.text), _SEQUENCE.search(mark.text)
        kinds.append(int(HostKind.OPERATOR if operator else HostKind.ANNOTATION))
        names.append(steps.get(mark) or (_DETAILS.split(mark.text)[0] if operator else mark.text))
        shapes.append(sizes[1] if operator and sizes else "")
        sequences.append(int(sequence[1]) if operator and sequence else NONE)
    rows.add(
        "host",
        start=np.array([mark.start for mark in ranges]),
        end=np.array([mark.end for mark in ranges]),
        thread=threads(np.array([mark.thread for mark in ranges], np.int64)),
        kind=np.array(kinds),
        name=rows.texts(names),
        shapes=rows.texts(shapes),
        sequence=np.array(sequences),
    )
