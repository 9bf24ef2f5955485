"""Attribution: kernel -> launch by correlation, launch -> operator by thread and time.

Never by `External id`, which newer traces fill with other numbers (`dlrm_8_ranks` proves it).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from laptime.trace import range_tree
from laptime.trace.columns import NONE, DeviceWork, Host, HostKind, Index, Rows, Trace


class Links(NamedTuple):
    """Which host row launched and contains which work.

    Attributes:
        calls: the forest of annotations, operators, runtime and driver calls.
        operator_of: per host row: the innermost operator around it (itself, if it is one); NONE without.
        launch: per device row: the host row of the runtime or driver call that launched it; NONE without.
        operator: per device row: the operator that launched it, a host row; NONE without.
    """

    calls: range_tree.RangeTree
    operator_of: Index
    launch: Index
    operator: Index

    def operator_around(self, rows: Rows | slice = slice(None)) -> Index:
        """Per host row the operator around it, itself excluded; NONE without."""
        return of_host(self.operator_of, self.calls.parent[rows])


def of_host(column: Index, rows: Rows) -> Index:
    """Values of a host column at rows that may be NONE."""
    return np.append(column, NONE).astype(np.int32)[rows]


def link(trace: Trace) -> Links:
    """All links of a trace."""
    host = trace.host
    calls = range_tree.calls(host)
    operator_rows = np.where(host.kind == HostKind.OPERATOR, np.arange(len(host)), NONE).astype(np.int32)
    operator_of = range_tree.inherit(calls, operator_rows)
    launch = launches(host, trace.device)
    return Links(calls, operator_of, launch, of_host(operator_of, launch))


def launches(host: Host, device: DeviceWork) -> Index:
    """Per device row the runtime or driver call with its correlation; runtime first, then the earlier."""
    is_call = (host.kind == HostKind.RUNTIME) | (host.kind == HostKind.DRIVER)
    rows = np.flatnonzero(is_call & (host.correlation != NONE))
    calls = np.full(len(device), NONE, np.int32)
    if not len(rows) or not len(device):
        return calls
    order = np.lexsort((host.start[rows], host.kind[rows], host.correlation[rows]))
    rows = rows[order].astype(np.int32)
    correlations = host.correlation[rows]
    at = np.minimum(np.searchsorted(correlations, device.correlation, side="left"), len(rows) - 1)
    hit = (correlations[at] == device.correlation) & (device.correlation != NONE)
    calls[hit] = rows[at[hit]]
    return calls
