"""Which backward belongs to which forward operator: by the arrows (fwdbwd), else by `Sequence number`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from laptime.trace import names, range_tree
from laptime.trace.columns import NONE, HostKind, Ints, Rows
from laptime.trace.view import View, once

_is_engine = names.matching("^autograd::engine::evaluate_function")


class Backward(NamedTuple):
    """One entry a backward operator: arrays of one length.

    Attributes:
        root: host row: autograd's `evaluate_function` around it, where the file has those, else itself.
        forward: host row of the operator that it is the backward of.
        host_ns, device_ns: of the root with all in it, but without other roots in it (checkpointing).
    """

    root: Rows
    forward: Rows
    host_ns: Ints
    device_ns: Ints


@once
def backward(view: View) -> Backward | None:
    """All of a trace; None where the file does not tell."""
    host, device, links = view.trace.host, view.trace.device, view.links
    forward, behind = _by_arrows(view)
    if not len(forward):
        forward, behind = _by_sequence(view)
    if not len(forward):
        return None
    root, first = np.unique(_roots(view, behind), return_index=True)
    operator_rows = np.full(len(host), NONE, np.int32)
    operator_rows[root] = np.arange(len(root))
    index_of = range_tree.inherit(links.calls, operator_rows)
    host_ns = (host.end - host.start)[root]
    above = links.calls.parent[root]
    outer = np.where(above >= 0, index_of[above], NONE)
    np.subtract.at(host_ns, outer[outer >= 0], (host.end - host.start)[root[outer >= 0]])
    work = np.flatnonzero(links.launch >= 0)
    work = work[index_of[links.launch[work]] >= 0]
    duration = (device.end - device.start)[work]
    device_ns = np.bincount(index_of[links.launch[work]], duration, minlength=len(root)).astype(np.int64)
    return Backward(root, forward[first], host_ns, device_ns)


def _by_arrows(view: View) -> tuple[Rows, Rows]:
    """Operators that begin where an arrow begins, and where it ends."""
    flows, host = view.trace.flows, view.trace.host
    tail = np.flatnonzero(flows.begin[:-1] & ~flows.begin[1:] & (flows.id[:-1] == flows.id[1:]))
    rows = np.flatnonzero(host.kind == HostKind.OPERATOR)
    if not len(tail) or not len(rows):
        return rows[:0], rows[:0]
    # Threads one after the other on one axis; rows are sorted by (thread, start), the outermost first.
    length = int(max(host.end.max(), flows.at.max())) + 1
    starts = host.thread[rows].astype(np.int64) * length + host.start[rows]

    def beginning(which: Rows) -> Rows:
        arrow_ends = flows.thread[which].astype(np.int64) * length + flows.at[which]
        at = np.minimum(np.searchsorted(starts, arrow_ends), len(starts) - 1)
        return np.where(starts[at] == arrow_ends, rows[at], NONE)

    forward, behind = beginning(tail), beginning(tail + 1)
    both = (forward >= 0) & (behind >= 0)
    return forward[both], behind[both]


def _by_sequence(view: View) -> tuple[Rows, Rows]:
    """Operators of one sequence number: the last forward one, and those that name a forward thread."""
    host = view.trace.host
    rows = np.flatnonzero((host.kind == HostKind.OPERATOR) & (host.sequence >= 0))
    later = host.forward_thread[rows] > 0
    forward, behind = rows[~later], rows[later]
    if not len(forward) or not len(behind):
        return rows[:0], rows[:0]
    forward = forward[np.argsort(host.sequence[forward], kind="stable")]
    numbers, backward_numbers = host.sequence[forward], host.sequence[behind]
    first = np.minimum(np.searchsorted(numbers, backward_numbers, side="left"), len(numbers) - 1)
    last = np.maximum(np.searchsorted(numbers, backward_numbers, side="right") - 1, 0)
    # Numbers are counted per thread: one that two threads have used tells nothing.
    sure = (numbers[last] == backward_numbers) & (host.thread[forward[first]] == host.thread[forward[last]])
    return forward[last[sure]], behind[sure]


def _roots(view: View, rows: Rows) -> Rows:
    """`Backward.root` of operators."""
    host, links = view.trace.host, view.links
    engine = names.rows(view.trace.texts, host.name, _is_engine)
    around = range_tree.inherit(links.calls, np.where(engine, np.arange(len(host)), NONE).astype(np.int32))
    return np.where(around[rows] >= 0, around[rows], rows)
