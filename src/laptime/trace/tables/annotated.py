"""Named ranges that are no operators: loader, optimizer, DDP, compiled regions, the user's own."""

from __future__ import annotations

import numpy as np

from laptime.records.tables import AnnotationRow
from laptime.trace import names as families
from laptime.trace.columns import HostKind, Ints, Rows
from laptime.trace.groups import group
from laptime.trace.view import View

MOST = 500
"""Rows at most; a name with a running number in it would give one row each."""

_is_marked = families.matching(
    r"^(enumerate\(Data(Loader|Pipe)\)#|Optimizer\.|(Distributed)?DataParallel\.forward$)"
)
"""Named ranges that the oldest format files under operators."""


def annotated(view: View) -> list[AnnotationRow]:
    """One row a name, most host time first; only what begins in the window of the steps."""
    host, device = view.trace.host, view.trace.device
    texts = view.trace.texts
    begin, end = view.window
    named = (host.kind == HostKind.ANNOTATION) | (
        (host.kind == HostKind.OPERATOR) & families.rows(texts, host.name, _is_marked)
    )
    rows = np.flatnonzero(named & (host.start >= begin) & (host.start < end))
    if not len(rows):
        return []
    groups = group(host.name[rows])
    names = groups.codes[0]
    keep = ~families.is_step([texts[name] for name in names])
    calls = groups.sizes()
    durations = host.end[rows] - host.start[rows]
    total = groups.sums(durations)
    longest = np.zeros(len(names), np.int64)
    np.maximum.at(longest, groups.of, durations)
    launched = np.flatnonzero(view.links.launch >= 0)
    launch = view.links.launch[launched]
    began, _ = _inside(view, rows, np.flatnonzero(host.kind == HostKind.OPERATOR))
    launches, launched_ns = _inside(view, rows, launch, (device.end - device.start)[launched])
    operators, kernels, device_ns = map(groups.sums, (began, launches, launched_ns))
    order = [each for each in np.argsort(-total, kind="stable") if keep[each]][:MOST]
    return [
        AnnotationRow(
            name=texts[names[each]],
            calls=int(calls[each]),
            host_ns=int(total[each]),
            longest_ns=int(longest[each]),
            operators=int(operators[each]),
            kernels=int(kernels[each]),
            device_ns=int(device_ns[each]),
        )
        for each in order
    ]


def _inside(view: View, rows: Rows, events: Rows, weights: Ints | None = None) -> tuple[Ints, Ints]:
    """Per row: how many of these host events began inside it on its thread, and the sum of their weights."""
    host = view.trace.host
    # Threads one after the other on a single axis: counting is then two searches in a sorted array.
    length = int(max(host.end.max(), 0)) + 2
    at = host.thread[events].astype(np.int64) * length + host.start[events]
    order = np.argsort(at, kind="stable")
    at = at[order]
    first = host.thread[rows].astype(np.int64) * length
    low = np.searchsorted(at, first + host.start[rows], side="left")
    high = np.searchsorted(at, first + host.end[rows], side="left")
    sums = np.zeros(len(at) + 1, np.int64)
    if weights is not None:
        np.cumsum(weights[order], out=sums[1:])
    return high - low, sums[high] - sums[low]
