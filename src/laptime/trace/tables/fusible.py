"""Kernels of the model that a compiler can fuse, and what fusing rows of them could save.

Lies when: a kernel's result is needed by two others far away, or a reduction ends a row that counts as one.
"""

from __future__ import annotations

import numpy as np

from laptime.records.profile import Fusible
from laptime.trace import intervals, names, phases
from laptime.trace.columns import DeviceKind, Ints, Mask
from laptime.trace.view import View


def fusible(view: View) -> Fusible | None:
    """Over the window of the steps; None without kernels."""
    device = view.trace.device
    begin, end = view.window
    rows = np.flatnonzero((device.kind == DeviceKind.KERNEL) & (device.start < end) & (device.end > begin))
    if not len(rows):
        return None
    rows = rows[np.lexsort((device.start[rows], device.stream[rows], device.device[rows]))]
    fuses = names.rows(view.trace.texts, device.name[rows], names.is_fusible) & ~_of_optimizer(view, rows)
    length = device.end[rows] - device.start[rows]
    stream = device.stream[rows] + (device.device[rows].astype(np.int64) << 32)
    starts = np.flatnonzero(fuses & ~np.append(False, fuses[:-1] & (stream[1:] == stream[:-1])))
    total = int(length[fuses].sum())
    if not len(starts):
        return Fusible(kernels=0, total_ns=0, runs=0, reachable_ns=0)
    of = np.cumsum(np.isin(np.arange(len(rows)), starts)) - 1
    of, spent = of[fuses], length[fuses]
    longest = np.zeros(len(starts), np.int64)
    np.maximum.at(longest, of, spent)
    sizes = np.bincount(of, minlength=len(starts))
    return Fusible(
        kernels=int(fuses.sum()),
        total_ns=total,
        runs=int((sizes > 1).sum()),
        reachable_ns=total - int(longest.sum()),
    )


def _of_optimizer(view: View, rows: Ints) -> Mask:
    """Which of these device rows an optimizer launched: compiling the model leaves it as it is."""
    host, launch = view.trace.host, view.links.launch[rows]
    marked = phases.named(view, names.is_optimizer)
    ranges = intervals.union(host.start[marked], host.end[marked])
    at = np.where(launch >= 0, host.start[launch] if len(host) else 0, -1)
    inside: Mask = (launch >= 0) & (intervals.within(ranges, at, at + 1) > 0)
    return inside
