"""Kernels by name, and by name, launching operator and launch configuration. All of the file's.

`fusible` finds kernels of the model that a compiler can fuse, and what fusing rows of them could save.

Lies when: a kernel's result is needed by two others far away, or a reduction ends a row that counts as one.
"""

from typing import Any

import numpy as np

from laptime.records.profile import Fusible
from laptime.records.tables import KernelRow
from laptime.trace import intervals, names, phases
from laptime.trace.columns import NONE, DeviceKind, Floats, Index, Mask, Rows
from laptime.trace.intervals import Groups, group
from laptime.trace.tables.operators import calls_of
from laptime.trace.view import View, of_host

KINDS = ("compute", "communication", "graph", "unlaunched")
"""`KernelRow.group`. A row whose kernels are of several kinds has that of most of its time."""


def kernels(view: View) -> list[KernelRow]:
    """One row a name."""
    rows = np.flatnonzero(view.trace.device.kind == DeviceKind.KERNEL)
    return _table(view, rows, group(view.trace.device.name[rows]))


def kernels_by_launch(view: View) -> list[KernelRow]:
    """One row a name, operator, grid, block, registers and shared memory."""
    device = view.trace.device
    rows = np.flatnonzero(device.kind == DeviceKind.KERNEL)
    operator = of_host(view.trace.host.name, view.links.operator[rows])
    launch = (device.grid, device.block, device.registers, device.shared_memory)
    return _table(view, rows, group(device.name[rows], operator, *(column[rows] for column in launch)))


def kinds(view: View) -> Index:
    """Per device row its kind, an index into KINDS."""
    trace, links = view.trace, view.links
    result = names.rows(trace.texts, trace.device.name, names.is_communication).astype(np.int32)
    replayed = names.rows(trace.texts, of_host(trace.host.name, links.launch), names.is_graph_launch)
    bare = links.operator == NONE
    result[bare & (links.launch == NONE)] = KINDS.index("unlaunched")
    result[bare & (replayed | ((links.launch == NONE) & (trace.device.graph > 0)))] = KINDS.index("graph")
    return result


def _table(view: View, rows: Rows, groups: Groups) -> list[KernelRow]:
    device, texts, size = view.trace.device, view.trace.texts, len(groups)
    duration = (device.end - device.start)[rows]
    total, calls = groups.sums(duration), groups.sizes()
    longest, shortest = np.zeros(size, np.int64), np.full(size, np.iinfo(np.int64).max)
    np.maximum.at(longest, groups.of, duration)
    np.minimum.at(shortest, groups.of, duration)
    of_kind = kinds(view)[rows]
    kind = np.argmax([groups.sums(duration * (of_kind == at)) for at in range(len(KINDS))], axis=0)
    matrix = names.uses_tensor_cores([texts[name] for name in groups.codes[0]])
    by_operator = calls_of(view)
    could = np.append(by_operator.could, False)[of_host(by_operator.own, view.links.operator)]
    eligible = groups.sums(could[rows]) > 0
    per_sm = _means(groups, device.blocks_per_sm[rows], duration)
    occupancy = _means(groups, device.occupancy[rows], duration)

    def row(at: int) -> KernelRow:
        name = texts[groups.codes[0][at]]
        codes = [int(column[at]) for column in groups.codes[1:]]  # none, if rows are by name
        words = [texts[code] if code >= 0 else "" for code in codes[:3]]
        numbers = [code if code >= 0 else None for code in codes[3:]]
        fields = ("operator", "grid", "block", "registers", "shared_memory")
        launch: dict[str, Any] = dict(zip(fields, [*words, *numbers], strict=False))
        return KernelRow(
            id=" | ".join([name, *map(str, launch.values())]) if launch else name,
            name=name,
            group=KINDS[kind[at]],
            **launch,
            family=names.name_of(name),
            tensor_cores=bool(matrix[at]),
            operator_eligible=bool(eligible[at]),
            calls=int(calls[at]),
            total_ns=int(total[at]),
            mean_ns=int(total[at]) // int(calls[at]),
            min_ns=int(shortest[at]),
            max_ns=int(longest[at]),
            blocks_per_sm=None if np.isnan(per_sm[at]) else float(per_sm[at]),
            occupancy=None if np.isnan(occupancy[at]) else float(occupancy[at]) / 100,
        )

    order = np.lexsort((*reversed(groups.codes), -total))
    return [row(at) for at in order.tolist()]


def _means(groups: Groups, values: Floats, duration: Rows) -> Floats:
    """Per group the mean weighted by duration of the values that are there; NaN without any."""
    there = ~np.isnan(values)
    weight = groups.sums(duration * there)
    plain = groups.sums(there)
    means = np.full(len(groups), np.nan)
    np.divide(groups.sums(np.where(there, values, 0.0) * duration), weight, out=means, where=weight > 0)
    instant = (weight == 0) & (plain > 0)  # nothing but kernels of no duration
    means[instant] = (groups.sums(np.where(there, values, 0.0)) / np.maximum(plain, 1))[instant]
    return means


def fusible(view: View) -> Fusible | None:
    """Over the window of the steps; None without kernels."""
    device = view.trace.device
    begin, end = view.window
    rows = np.flatnonzero((device.kind == DeviceKind.KERNEL) & (device.start < end) & (device.end > begin))
    if not len(rows):
        return None
    rows = rows[np.lexsort((device.start[rows], device.stream[rows], device.device[rows]))]
    # Which of these device rows an optimizer launched: compiling the model leaves it as it is.
    host, launch = view.trace.host, view.links.launch[rows]
    ranges = intervals.of(host, phases.find_rows(view, names.is_optimizer))
    at = np.where(launch >= 0, host.start[launch] if len(host) else 0, -1)
    inside: Mask = (launch >= 0) & (intervals.within(ranges, at, at + 1) > 0)
    fuses = names.rows(view.trace.texts, device.name[rows], names.is_fusible) & ~inside
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
