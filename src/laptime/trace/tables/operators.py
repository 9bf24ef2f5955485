"""Operators by name, and by name and shapes of their inputs: host and device time, tensor cores, places.

The definitions are those of the PyTorch Profiler TensorBoard plugin (kineto, tb_plugin): the tree is
containment on a thread; an operator whose only child has its name is one with it; host self time is without
children and own runtime calls; device self time is what own runtime calls launched, device total that of its
children, too. Sums of durations, not unions. Unlike there, driver calls launch, too, `External id` is not
believed, and the device time of an operator in one of its own name counts once in their total.

`list_annotated` has the other named ranges: loader, optimizer, DDP, compiled regions, the user's own."""

from typing import NamedTuple

import numpy as np

from laptime.records.tables import AnnotationRow, OperatorRow, StackRow
from laptime.trace import intervals, names, stacks
from laptime.trace.columns import NONE, DeviceKind, Floats, HostKind, Index, Ints, Mask, Rows
from laptime.trace.intervals import Groups, group
from laptime.trace.view import View, once

WITH_STACKS = 60  # Rows, from the top, that say where they are called from
PLACES = 5  # places at most in one row


class Calls(NamedTuple):
    """Operators as calls: one entry per host row, which counts only if `own` is the row itself."""

    # the operator that this one is one with: itself for most. NONE for rows that are no operators.
    own: Index
    within: intervals.Subtrees  # what lies in which range
    host_self: Ints  # ns
    # ns of the activities it launched itself, how many (`kernels`), ns in tensor-core kernels
    device_self: Floats
    kernels: Ints
    tensor_cores: Floats
    could: Mask  # use tensor cores: it is named so, or launched a kernel that does
    eligible: Mask  # it or an operator in it could


def operators(view: View) -> list[OperatorRow]:
    """One row a name."""
    calls = calls_of(view)
    rows = np.flatnonzero(find_listed(view))
    return _table(view, calls, rows, group(view.trace.host.name[rows]))


def operators_by_shape(view: View) -> list[OperatorRow]:
    """One row a name and `Input Dims`."""
    host, calls = view.trace.host, calls_of(view)
    rows = np.flatnonzero(find_listed(view))
    return _table(view, calls, rows, group(host.name[rows], host.shapes[rows]))


@once
def calls_of(view: View) -> Calls:
    """Self times and launched work of every operator call."""
    host, device, links = view.trace.host, view.trace.device, view.links
    call = _merge(view)
    inside = links.calls.rows
    inside = inside[(links.calls.parent[inside] >= 0) & ((call[inside] == inside) | (call[inside] == NONE))]
    around = links.calls.parent[inside]
    child_ns = np.minimum(host.end[inside], host.end[around]) - host.start[inside]
    holder = call[around]
    is_operator = holder >= 0
    children = np.bincount(holder[is_operator], child_ns[is_operator], minlength=len(host))
    host_self = host.end - host.start - children.astype(np.int64)

    launched = np.flatnonzero(links.operator >= 0)
    by = call[links.operator[launched]]
    duration = (device.end - device.start)[launched]
    matrix = names.rows(view.trace.texts, device.name, names.uses_tensor_cores)[launched]
    matrix &= device.kind[launched] == DeviceKind.KERNEL
    could = names.rows(view.trace.texts, host.name, names.is_tensor_core_eligible)
    could &= call == np.arange(len(host))
    could[by[matrix]] = True
    within = intervals.subtrees(links.calls)
    eligible = np.zeros(len(host), bool)
    eligible[within.rows] = within.sums(could) > 0
    size = len(host)
    return Calls(
        own=call,
        within=within,
        host_self=host_self,
        device_self=np.bincount(by, duration, minlength=size).astype(np.float64),
        kernels=np.bincount(by, minlength=size),
        tensor_cores=np.bincount(by[matrix], duration[matrix], minlength=size).astype(np.float64),
        could=could,
        eligible=eligible,
    )


def _merge(view: View) -> Index:
    """`own` of `Calls`."""
    host, links = view.trace.host, view.links
    parent = links.calls.parent
    node = (host.kind == HostKind.OPERATOR) | (host.kind == HostKind.ANNOTATION)
    rows = np.flatnonzero(node & (parent >= 0))
    around = parent[rows]
    only = np.bincount(around, minlength=len(host))[around] == 1
    both = (host.kind[rows] == HostKind.OPERATOR) & (host.kind[around] == HostKind.OPERATOR)
    same = rows[only & both & (host.name[rows] == host.name[around])]
    call_rows = np.where(host.kind == HostKind.OPERATOR, np.arange(len(host)), NONE).astype(np.int32)
    call_rows[same] = parent[same]
    while len(same):
        above = call_rows[call_rows[same]]
        same, above = same[above != call_rows[same]], above[above != call_rows[same]]
        call_rows[same] = above
    return call_rows


def find_listed(view: View) -> Mask:
    """Host rows of the operators that tables show."""
    calls = calls_of(view)
    operator: Mask = calls.own == np.arange(len(calls.own))
    unlisted = names.rows(view.trace.texts, view.trace.host.name, _is_marked)
    return operator & ~unlisted & ~names.rows(view.trace.texts, view.trace.host.name, _is_step)


def _table(view: View, calls: Calls, rows: Ints, groups: Groups) -> list[OperatorRow]:
    host, texts = view.trace.host, view.trace.texts
    number = np.full(len(host), NONE, np.int32)
    number[rows] = groups.of
    total = _with_children(calls, number, len(groups), calls.device_self)
    matrix_total = _with_children(calls, number, len(groups), calls.tensor_cores)
    self_ns, matrix = groups.sums(calls.device_self[rows]), groups.sums(calls.tensor_cores[rows])
    host_total = groups.sums((host.end - host.start)[rows])
    host_self = groups.sums(calls.host_self[rows])
    count, launched = groups.sizes(), groups.sums(calls.kernels[rows])
    eligible = groups.sums(calls.eligible[rows]) > 0
    cost = (self_ns, host_self) if len(view.trace.device) else (host_self, self_ns)
    order = np.lexsort((groups.codes[0], -cost[1], -cost[0]))
    # Per group its `Input type`s, most frequent first.
    types = view.trace.host.types[rows]
    pairs = group(groups.of[types >= 0], types[types >= 0])
    dtypes = dict[int, list[str]]()
    for at in np.lexsort((pairs.codes[1], -pairs.sizes())).tolist():
        dtypes.setdefault(int(pairs.codes[0][at]), []).append(view.trace.texts[pairs.codes[1][at]])
    table = []
    for place, at in enumerate(order.tolist()):
        name = texts[groups.codes[0][at]]
        shapes = texts[groups.codes[1][at]] if len(groups.codes) > 1 and groups.codes[1][at] >= 0 else ""
        table.append(
            OperatorRow(
                id=f"{name} {shapes}" if shapes else name,
                name=name,
                shapes=shapes,
                calls=int(count[at]),
                host_total_ns=int(host_total[at]),
                host_self_ns=int(host_self[at]),
                device_total_ns=int(total[at]),
                device_self_ns=int(self_ns[at]),
                tensor_core_eligible=bool(eligible[at]),
                tensor_core_self=_share(matrix[at], self_ns[at]),
                tensor_core_total=_share(matrix_total[at], total[at]),
                kernels=int(launched[at]),
                dtypes=dtypes.get(at, []),
                stacks=_stacks(view, calls, rows[groups.of == at]) if place < WITH_STACKS else [],
            )
        )
    return table


def _with_children(calls: Calls, number: Index, groups: int, weights: Floats) -> Floats:
    """Per group: weights of its operators and of all in them, once if one lies in another of its group.
    `number` is the group of a host row."""
    outermost = calls.within.outermost(number)
    totals = calls.within.sums(weights.astype(np.int64))[outermost]
    of = number[calls.within.rows[outermost]]
    return np.bincount(of, totals, minlength=groups).astype(np.float64)


def _stacks(view: View, calls: Calls, rows: Ints) -> list[StackRow]:
    """The most costly places that these calls come from; by device time, if they have any."""
    places = stacks.places(view, rows)
    rows, places = rows[places != 0], places[places != 0]
    if not len(rows):
        return []
    _, first, of = np.unique(places, return_index=True, return_inverse=True)
    device, host = np.bincount(of, calls.device_self[rows]), np.bincount(of, calls.host_self[rows])
    count = np.bincount(of)
    order = np.lexsort((first, -host, -device))[:PLACES].tolist()
    return [
        StackRow(
            frames=stacks.stack_of(view, int(rows[first[at]])),
            calls=int(count[at]),
            host_self_ns=int(host[at]),
            device_self_ns=int(device[at]),
        )
        for at in order
    ]


def _share(part: float, whole: float) -> float | None:
    return float(part / whole) if whole > 0 else None


MOST = 500  # rows at most; a name with a running number in it would give one row each
_is_marked = names.matching(
    r"^(enumerate\(Data(Loader|Pipe)\)#|Optimizer\.|(Distributed)?DataParallel\.forward$)"
)
"""Named ranges that the oldest format files under operators."""
_is_step = names.matching("^ProfilerStep")


def list_annotated(view: View) -> list[AnnotationRow]:
    """One row a name, most host time first; only what begins in the window of the steps."""
    host, device = view.trace.host, view.trace.device
    texts = view.trace.texts
    begin, end = view.window
    named = (host.kind == HostKind.ANNOTATION) | (
        (host.kind == HostKind.OPERATOR) & names.rows(texts, host.name, _is_marked)
    )
    rows = np.flatnonzero(named & (host.start >= begin) & (host.start < end))
    if not len(rows):
        return []
    groups = group(host.name[rows])
    called = [texts[name] for name in groups.codes[0]]
    keep = ~names.is_step(called)
    calls = groups.sizes()
    durations = host.end[rows] - host.start[rows]
    total = groups.sums(durations)
    longest = np.zeros(len(called), np.int64)
    np.maximum.at(longest, groups.of, durations)
    launched = np.flatnonzero(view.links.launch >= 0)
    launch = view.links.launch[launched]
    began, _ = _inside(view, rows, np.flatnonzero(host.kind == HostKind.OPERATOR))
    launches, launched_ns = _inside(view, rows, launch, (device.end - device.start)[launched])
    operators, kernels, device_ns = map(groups.sums, (began, launches, launched_ns))
    order = [each for each in np.argsort(-total, kind="stable") if keep[each]][:MOST]
    return [
        AnnotationRow(
            name=called[each],
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
