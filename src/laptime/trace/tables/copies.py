"""Copies and memsets on the device by direction and kind of host memory."""

from __future__ import annotations

import numpy as np

from laptime.records.tables import CopyRow
from laptime.trace import intervals, stacks, waits
from laptime.trace.columns import NONE, DeviceKind, Index, Ints, Mask
from laptime.trace.view import View

MOST = 8
"""Operators listed per row."""


def copies(view: View) -> list[CopyRow]:
    """Over the whole file, most time first."""
    device = view.trace.device
    rows = np.flatnonzero(device.kind != DeviceKind.KERNEL).astype(np.int32)
    if not len(rows):
        return []
    direction, memory = waits.sorts(view, rows)
    direction = np.where(device.kind[rows] == DeviceKind.MEMSET, "memset", direction)
    exposed = _exposed(view, rows)
    waited = _waited(view, rows)
    table = []
    for key in sorted(set(zip(direction.tolist(), memory.tolist(), strict=True))):
        in_group = (direction == key[0]) & (memory == key[1])
        table.append(_row(view, key, rows[in_group], exposed[in_group], waited[in_group]))
    return sorted(table, key=lambda row: -row.total_ns)


def _row(view: View, key: tuple[str, str], rows: Index, exposed: Ints, waited: Mask) -> CopyRow:
    device = view.trace.device
    direction, memory = key
    length = device.end[rows] - device.start[rows]
    total, sized = int(length.sum()), device.bytes[rows] >= 0
    size, time = int(device.bytes[rows][sized].sum()), int(length[sized].sum())
    operators, stack = _causes(view, rows, length)
    return CopyRow(
        id=" ".join(word for word in key if word) or "copy",
        direction=direction,
        memory=memory,
        calls=len(rows),
        total_ns=total,
        exposed_ns=int(exposed.sum()),
        bytes=size if sized.all() else None,
        bandwidth=size * 1e9 / time if sized.any() and time else None,
        operators=operators,
        stack=stack,
        blocking="all" if waited.all() else "some" if waited.any() else "",
    )


def _causes(view: View, rows: Index, length: Ints) -> tuple[list[tuple[str, int]], list[str]]:
    """Operators that caused these copies, most time first, and the stack of the longest copy of the first."""
    host, texts = view.trace.host, view.trace.texts
    launch = view.links.launch[rows]
    linked = launch >= 0
    launch, length = launch[linked], length[linked]
    operator = waits.culprits(view, launch)
    if not len(launch):
        return [], []
    name = np.where(operator >= 0, host.name[operator], host.name[launch])
    causes, of = np.unique(name, return_inverse=True)
    ns = np.bincount(of, length).astype(np.int64)
    order = np.argsort(-ns, kind="stable")[:MOST].tolist()
    first = np.flatnonzero(of == order[0])
    worst = int(launch[first[np.argmax(length[first])]])
    return [(texts[causes[each]], int(ns[each])) for each in order], stacks.stack_of(view, worst)


def _exposed(view: View, rows: Index) -> Ints:
    """Per copy: ns in which no kernel ran on its accelerator."""
    device = view.trace.device
    exposed = device.end[rows] - device.start[rows]
    for gpu in np.unique(device.device[rows]):
        kernels = (device.device == gpu) & (device.kind == DeviceKind.KERNEL)
        busy = intervals.union(device.start[kernels], device.end[kernels])
        mine = device.device[rows] == gpu
        exposed[mine] -= intervals.within(busy, device.start[rows[mine]], device.end[rows[mine]])
    return exposed


def _waited(view: View, rows: Index) -> Mask:
    """Which copies the host waited for: in their call, or in a synchronisation that has the same cause."""
    waiting = waits.waiting(view)
    launch = view.links.launch[rows]
    cause = np.where(launch >= 0, waits.culprits(view, launch), NONE)
    others = waits.culprits(view, waiting)
    return np.isin(launch, waiting) | ((cause >= 0) & np.isin(cause, others))
