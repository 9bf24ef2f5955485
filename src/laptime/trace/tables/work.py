"""The work and traffic of operators: calls by operator and shape with the time that belongs to them.

A call is counted at the outermost operator whose work its shapes tell, `aten::linear` and not `aten::addmm`
in it; all that lies in it is its time, so neither work nor time counts twice. Time in no counted call belongs
to the class of the nearest operator around it that a class names. Collectives and copies between host and
device are classes of their own, whatever operator launched them.

Time is that of the device's activities; without an accelerator it is the time of operators without their
children. Only calls that launched something are counted if there is an accelerator.

Lies when: as operator_work; kernels of a counted call are missing in the file."""

import json
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple, get_args

import numpy as np
from msgspec import structs

from laptime.analysis import operator_work
from laptime.analysis import roofline as rooflines
from laptime.analysis.operator_work import Counted
from laptime.analysis.products import Shape
from laptime.records.overview import OperatorClass, Roofline, Work
from laptime.records.profile import JSON_FORMATS
from laptime.trace import host_time, intervals, names
from laptime.trace.columns import NONE, DeviceKind, Index, Ints, Mask
from laptime.trace.intervals import group
from laptime.trace.tables.operators import Calls, calls_of, find_listed
from laptime.trace.view import View

KINDS: tuple[OperatorClass, ...] = get_args(OperatorClass)
_OTHER, _CONVOLUTION = KINDS.index("other"), KINDS.index("convolution")
_NO_SHAPES = (
    "The file has no shapes, which give FLOP and bytes: record it with"
    " torch.profiler.profile(record_shapes=True), or laptime profile."
)
_FOLLOWING = 4  # operators after a convolution whose inputs may show its output


class _Spent(NamedTuple):
    """Per host row what its own calls took: ns, and ns on tensor cores; other device work by class."""

    ns: Ints
    matrix: Ints
    apart: list[Work]


def roofline(view: View) -> Roofline | None:
    """Count work by class and operator; None for a file that has no operators of PyTorch."""
    trace = view.trace
    if trace.format not in JSON_FORMATS or not names.codes(trace.texts, trace.host.name, _codes).any():
        return None
    if not len(trace.device) and names.rows(trace.texts, trace.host.name, names.is_launch).any():
        return Roofline(missing="Work was launched that the file does not have: its times are not known.")
    made = rooflines.roofline(works(view))
    if (trace.host.shapes >= 0).any():
        return made
    return structs.replace(made, missing=_NO_SHAPES)


def works(view: View) -> list[Work]:
    """Rows by operator and shape, and one a class and operator for what is not counted; not sorted."""
    calls = calls_of(view)
    total = np.zeros(len(view.trace.host), np.int64)
    spent = (
        _on_device(view, calls)
        if len(view.trace.device)
        else _Spent(np.where(find_listed(view), calls.host_self, 0), np.zeros_like(total), [])
    )
    total[calls.within.rows] = calls.within.sums(spent.ns)
    kind = names.codes(view.trace.texts, view.trace.host.name, _codes) - 1
    kind[calls.own != np.arange(len(calls.own))] = NONE  # an index into KINDS if a class names it
    rows = np.flatnonzero((kind >= 0) & (total > 0) & (view.trace.host.shapes >= 0))
    rows = rows[view.trace.host.types[rows] >= 0]
    # Calls by name, shapes, types and, of convolutions, the output: an index into the list.
    host = view.trace.host
    outputs: list[Shape] = []
    output = np.full(len(host), NONE, np.int32)
    convolutions = rows[kind[rows] == _CONVOLUTION]
    _find_outputs(view, calls, convolutions.astype(np.int32), output, outputs)
    groups = group(host.name[rows], host.shapes[rows], host.types[rows], output[rows])
    read, texts = partial(_read, view), view.trace.texts
    counted = [
        operator_work.work(texts[name], read(shapes), read(types), outputs[out] if out >= 0 else None)
        for name, shapes, types, out in zip(*(column.tolist() for column in groups.codes), strict=True)
    ]
    known = np.array([each is not None for each in counted], bool)
    is_known = np.full(len(kind), NONE, np.int32)
    if len(rows):
        is_known[rows[known[groups.of]]] = 0
    outer = calls.within.outermost(is_known)
    is_root = np.zeros(len(kind), bool)
    is_root[calls.within.rows[outer]] = True
    roots = is_root[rows]
    made = (
        _make(view, rows[roots], groups.of[roots], counted, total, calls.within, spent) if len(rows) else []
    )
    # Per host row: it is a counted call, or lies in one.
    tree = calls.within
    edges = np.zeros(len(tree.rows) + 1, np.int64)
    at = np.flatnonzero(outer)
    edges[at] += 1
    np.subtract.at(edges, tree.end[at], 1)
    inside = np.zeros(len(calls.own), bool)
    inside[tree.rows] = np.cumsum(edges[:-1]) > 0
    return [*made, *_rest(view, kind, inside, spent.ns), *spent.apart]


def _on_device(view: View, calls: Calls) -> _Spent:
    """Time of activities, by the operator that launched them."""
    device, texts, size = view.trace.device, view.trace.texts, len(view.trace.host)
    length = device.end - device.start
    talks = names.rows(texts, device.name, names.is_communication) & (device.kind == DeviceKind.KERNEL)
    copies = np.flatnonzero(device.kind == DeviceKind.MEMCPY)
    moves = np.zeros(len(device), bool)
    moves[copies] = np.isin(host_time.sorts(view, copies.astype(np.int32))[0], ("HtoD", "DtoH"))
    launched = (view.links.operator >= 0) & ~talks & ~moves
    by = calls.own[view.links.operator[launched]]
    matrix = names.rows(texts, device.name, names.uses_tensor_cores)[launched]
    apart = [_apart(view, "communication", talks, None), _apart(view, "transfer", moves, device.bytes)]
    apart.append(_apart(view, "other", (view.links.operator < 0) & ~talks & ~moves, None))
    return _Spent(
        np.bincount(by, length[launched], minlength=size).astype(np.int64),
        np.bincount(by[matrix], length[launched][matrix], minlength=size).astype(np.int64),
        [row for row in apart if row.calls],
    )


def _apart(view: View, kind: OperatorClass, rows: Mask, moved: Ints | None) -> Work:
    """Activities that belong to no operator's work."""
    device = view.trace.device
    total = int((device.end - device.start)[rows].sum())
    told = moved is not None and rows.any() and bool((moved[rows] >= 0).all())
    return Work(
        id=kind,
        kind=kind,
        calls=int(rows.sum()),
        total_ns=total,
        uncounted_ns=0 if told else total,
        bytes=float(moved[rows].sum()) if told and moved is not None else None,
    )


def _codes(texts: Sequence[str]) -> Index:
    """1 and above for a class, 0 for none."""
    kinds = (operator_work.kind_of(text) for text in texts)
    return np.array([KINDS.index(kind) + 1 if kind else 0 for kind in kinds], np.int32)


def _find_outputs(view: View, calls: Calls, rows: Index, output: Index, outputs: list[Shape]) -> None:
    """Fill in the outputs of convolutions, as the operators that follow them on their thread have them."""
    host, tree = view.trace.host, calls.within
    shaped = np.flatnonzero(host.shapes[tree.rows] >= 0)
    place = np.searchsorted(tree.rows, rows)
    following = np.searchsorted(shaped, tree.end[place])
    numbers: dict[tuple[int, ...], int] = {}
    for ahead in range(_FOLLOWING):
        there = (following + ahead < len(shaped)) & (output[rows] < 0)
        todo = rows[there]
        later = tree.rows[shaped[following[there] + ahead]]
        same = host.thread[later] == host.thread[todo]
        todo, later = todo[same], later[same]
        pairs = group(host.shapes[todo], host.shapes[later]) if len(todo) else None
        if pairs is None:
            continue
        codes = np.full(len(pairs), NONE, np.int32)
        for index, (of, inputs) in enumerate(zip(*(column.tolist() for column in pairs.codes), strict=True)):
            shape = operator_work.output_of(_read(view, of), _read(view, inputs))
            if shape is not None:
                codes[index] = numbers.setdefault(tuple(shape), len(numbers))
        output[todo] = codes[pairs.of]
    outputs.extend(numbers)


def _read(view: View, text: int) -> list[object]:
    """A list that a trace has as text."""
    try:
        values = json.loads(view.trace.texts[text]) if text >= 0 else []
    except ValueError:
        return []
    return values if isinstance(values, list) else []


def _make(
    view: View,
    roots: Ints,
    of: Index,
    counted: list[Counted | None],
    total: Ints,
    within: intervals.Subtrees,
    spent: _Spent,
) -> list[Work]:
    """A row a group of counted calls."""
    host, texts = view.trace.host, view.trace.texts
    matrix = np.zeros(len(host), np.int64)
    matrix[within.rows] = within.sums(spent.matrix)
    size = len(counted)
    calls = np.bincount(of, minlength=size)
    ns = np.bincount(of, total[roots], minlength=size).astype(np.int64)
    on_matrix = np.bincount(of, matrix[roots], minlength=size) > 0
    first = np.zeros(size, np.int64)
    first[of[::-1]] = roots[::-1]
    result = []
    for at in np.flatnonzero(calls).tolist():
        work = counted[at]
        assert work is not None
        name, shapes, number = texts[host.name[first[at]]], texts[host.shapes[first[at]]], int(calls[at])
        kind = operator_work.kind_of(name)
        assert kind is not None
        dtype = "tf32" if work.dtype == "float32" and on_matrix[at] else work.dtype
        result.append(
            Work(
                id=f"{name} {shapes}",
                kind=kind,
                name=name,
                shapes=shapes,
                calls=number,
                total_ns=int(ns[at]),
                flop={dtype: float(work.flop * number)} if work.flop else {},
                bytes=float(work.bytes * number),
            )
        )
    return result


def _rest(view: View, kind: Index, inside: Mask, spent: Ints) -> list[Work]:
    """A row a class and operator: what is in no counted call."""
    host, texts = view.trace.host, view.trace.texts
    rows = np.flatnonzero(~inside & (spent > 0))
    if not len(rows):
        return []
    kinds = intervals.inherit(view.links.calls, kind)[rows]
    groups = group(np.where(kinds >= 0, kinds, _OTHER), host.name[rows])
    numbers, ns = groups.sizes(), groups.sums(spent[rows])
    return [
        Work(
            id=texts[name],
            kind=KINDS[of],
            name=texts[name],
            calls=int(numbers[index]),
            total_ns=int(ns[index]),
            uncounted_ns=int(ns[index]),
        )
        for index, (of, name) in enumerate(zip(*(column.tolist() for column in groups.codes), strict=True))
    ]
