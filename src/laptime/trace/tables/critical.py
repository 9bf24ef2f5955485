"""The critical path of the step nearest the median, by kind and name (critical_path.py walks it)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from laptime.records.tables import CriticalPath, Link, PathRow
from laptime.trace import critical_path, host_attribution, intervals, names, phases, range_tree, stacks, waits
from laptime.trace.columns import NONE, DeviceKind, HostKind, Index
from laptime.trace.critical_path import Part
from laptime.trace.intervals import Ranges
from laptime.trace.tables.timeline import typical
from laptime.trace.view import View

MOST = 40
"""Rows; the rest of a kind is one row without a name."""


class _Piece(NamedTuple):
    """A part with its kind and name; `row` is a host row whose stack tells where it comes from."""

    kind: Link
    name: str
    ns: int
    row: int


def critical(view: View) -> CriticalPath | None:
    """None for a file without operators, calls or device work."""
    step = typical(view.steps)
    begin, end = int(view.steps.start[step]), int(view.steps.end[step])
    if phases.loop_thread(view) == NONE or end <= begin:
        return None
    parts = critical_path.walk(view, begin, end)
    pieces = [*_of_device(view, parts), *_of_host(view, parts)]
    kinds = Counter[str]()
    for piece in pieces:
        kinds[piece.kind] += piece.ns
    return CriticalPath(
        step=int(view.steps.number[step]),
        total_ns=end - begin,
        kinds_ns=dict(kinds.most_common()),
        rows=_rows(view, pieces),
    )


def _of_device(view: View, parts: list[Part]) -> Iterator[_Piece]:
    device, texts, links = view.trace.device, view.trace.texts, view.links
    parts = [part for part in parts if part.row != NONE]
    rows = np.array([part.row for part in parts], np.int64)
    moves = (device.kind[rows] != DeviceKind.KERNEL).tolist()
    talks = names.rows(texts, device.name[rows], names.is_communication).tolist()
    operator = links.operator[rows]
    cause = np.where(operator >= 0, operator, links.launch[rows]).tolist()
    for part, name, moved, talked, row in zip(
        parts, device.name[rows].tolist(), moves, talks, cause, strict=True
    ):
        if part.kind == "device":
            kind: Link = "copy" if moved else "communication" if talked else "kernel"
            yield _Piece(kind, texts[name] if name >= 0 else "", part.end - part.start, row)
        else:
            yield _Piece("gap" if part.kind == "gap" else "latency", "", part.end - part.start, row)


def _of_host(view: View, parts: list[Part]) -> Iterator[_Piece]:
    """The host's parts, split by what its thread did; the innermost operator or function names them."""
    kinds = _kinds(view)
    for thread in dict.fromkeys(part.thread for part in parts if part.thread != NONE):
        mine = [part for part in parts if part.thread == thread]
        spent = intervals.union(
            np.array([part.start for part in mine]), np.array([part.end for part in mine])
        )
        data = intervals.intersect(spent, phases.cover(view, phases.loading(view), thread))
        both: dict[Link, Ranges] = {"data": data, "unrecorded": intervals.subtract(spent, data)}
        for kind, ranges in both.items():
            if not len(ranges.start):
                continue
            left, shares = ranges.total, host_attribution.innermost(view, thread, ranges)
            for row, name, ns in zip(*(column.tolist() for column in shares), strict=True):
                text = view.trace.texts[name] if name >= 0 else ""
                yield _Piece(kind if kind == "data" else _HOST[kinds[row]], text, ns, row)
                left -= ns
            if left:
                yield _Piece(kind, "", left, NONE)


_HOST: tuple[Link, ...] = ("python", "operator", "launch", "synchronisation", "communication")


def _kinds(view: View) -> Index:
    """Per host row what it does, an index into _HOST; what lies in a wait or a collective is part of it."""
    kind = view.trace.host.kind
    told = np.full(len(kind), NONE, np.int32)
    told[waits.waiting(view)] = _HOST.index("synchronisation")
    told[phases.named(view, names.is_host_collective)] = _HOST.index("communication")
    around = range_tree.inherit(view.links.calls, told)
    own = np.where(phases.operators(view), 1, 0)
    own[(kind == HostKind.RUNTIME) | (kind == HostKind.DRIVER)] = _HOST.index("launch")
    return np.where(around >= 0, around, own).astype(np.int32)


def _rows(view: View, pieces: list[_Piece]) -> list[PathRow]:
    """By kind and name, longest first; small ones of a kind together."""
    found = defaultdict[tuple[Link, str], list[_Piece]](list)
    for piece in pieces:
        found[piece.kind, piece.name].append(piece)
    order = sorted(found, key=lambda key: (-sum(piece.ns for piece in found[key]), key))
    for kind, name in order[MOST:]:
        if name:
            found[kind, ""] += found.pop((kind, name))
    rows = [_row(view, kind, name, each) for (kind, name), each in found.items()]
    return sorted(rows, key=lambda row: (-row.total_ns, row.id))


def _row(view: View, kind: Link, name: str, pieces: list[_Piece]) -> PathRow:
    longest = max(pieces, key=lambda piece: piece.ns)
    return PathRow(
        id=f"{kind} {name}".rstrip(),
        kind=kind,
        name=name,
        total_ns=sum(piece.ns for piece in pieces),
        parts=len(pieces),
        longest_ns=longest.ns,
        stack=stacks.stack_of(view, longest.row) if longest.row != NONE and name else [],
    )
