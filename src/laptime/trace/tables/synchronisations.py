"""Calls that made the host wait for the device, by call and by the operator that caused them.

Those count that began between the host's start of the first step and its end of the last: not the profiler's
own `cudaDeviceSynchronize` after that.
"""

from __future__ import annotations

import numpy as np

from laptime.records.overview import Synchronisation
from laptime.trace import stacks, waits
from laptime.trace.links import of_host
from laptime.trace.view import View


def find(view: View) -> list[Synchronisation]:
    """One row per call and operator, longest wait first."""
    host, texts, steps = view.trace.host, view.trace.texts, view.steps
    rows = waits.waiting(view)
    begin, end = int(steps.host_start.min()), int(steps.host_end.max())
    rows = rows[(host.start[rows] >= begin) & (host.start[rows] < end)]
    if not len(rows):
        return []
    cause = waits.culprits(view, rows)
    operator = of_host(host.name, cause)
    labels = waits.labels(view, rows)
    distinct, call = np.unique(np.array(labels, object), return_inverse=True)
    keys, group = np.unique(np.stack([call, operator]), axis=1, return_inverse=True)
    length = host.end[rows] - host.start[rows]
    table = []
    for number, (called, by) in enumerate(keys.T.tolist()):
        in_group = np.flatnonzero(group.reshape(-1) == number)
        table.append(
            Synchronisation(
                call=distinct[called],
                operator=texts[by] if by >= 0 else "",
                calls=len(in_group),
                wait_ns=int(length[in_group].sum()),
                stack=stacks.stack_of(view, int(rows[in_group[np.argmax(length[in_group])]])),
            )
        )
    return sorted(table, key=lambda row: -row.wait_ns)
