"""The tree of nn.Modules, forward and backward.

From the Python functions `nn.Module: NAME` of a trace, or from the `Module Hierarchy` that operators of
TorchScript models have, whichever names more. A node is a place in the tree: a module that two others call is
two nodes. Device time is that of what was launched inside. Sums of durations, not unions. The backward of a
module is that of the operators in it; gradients being accumulated belong to no module.

Lies when: from `Module Hierarchy`, host time is that of operators only, and calls that follow each other
with no operator of another module in between count as one.

A backward belongs to a forward operator by the arrows (fwdbwd), else by `Sequence number`."""

import re
from typing import NamedTuple

import numpy as np

from laptime.records.tables import ModuleRow
from laptime.trace import intervals, names, stacks
from laptime.trace.columns import NONE, HostKind, Index, Ints, Mask, Rows
from laptime.trace.intervals import group
from laptime.trace.view import View, of_host, once

_PART = re.compile(r"(?:^|\.)([^.()]*)\(([^()]*)\)::")
_NUMBERED = re.compile(r"_\d+$")
_is_module = names.matching(f"^{stacks.MODULE}")


class Node(NamedTuple):
    """A place in the tree: number of the node above (NONE for roots), name, and name in ids."""

    parent: int
    name: str
    label: str


class Spans(NamedTuple):
    """Ranges of modules."""

    nodes: list[Node]  # parents come before children
    rows: Rows  # host rows that are calls of modules, or in `Module Hierarchy` the outermost operators of one
    node: Index  # per row its node
    outer: Index  # per row the one that it lies in, an index into rows; NONE without
    inside: Index  # per host row the node that it lies in; NONE without
    calls: Ints  # per node


def modules(view: View) -> list[ModuleRow]:
    """One row a node, in tree order; none if the trace has no modules."""
    host, texts = view.trace.host, view.trace.texts
    functions = (host.kind == HostKind.PYTHON) & names.rows(texts, host.name, _is_module)
    sources = {"python": _from_functions(view, functions)} if functions.any() else {}
    if any(texts[at] for at in intervals.distinct(host.module[host.module >= 0])):
        sources["hierarchy"] = _from_hierarchy(view)
    source = max(sources, key=lambda each: len(sources[each].nodes), default="")
    return _table(view, sources[source], source) if source and sources[source].nodes else []


def _from_functions(view: View, take: Mask) -> Spans:
    host, texts = view.trace.host, view.trace.texts
    around = stacks.enclosing(view, take)
    nodes = list[Node]()
    node = np.full(len(host) + 1, NONE, np.int32)  # the last one is NONE
    for level in intervals.levels(intervals.build(host, take)):
        groups = group(node[around[level]], host.name[level], host.module_id[level])
        node[level] = len(nodes) + groups.of
        for parent, name, number in zip(*(codes.tolist() for codes in groups.codes), strict=True):
            text = texts[name].removeprefix(stacks.MODULE)
            plain = number < 0 or _NUMBERED.search(text)
            nodes.append(Node(parent, text, text if plain else f"{text}_{number}"))
    rows = np.flatnonzero(take)
    index = np.full(len(host) + 1, NONE, np.int32)
    index[rows] = np.arange(len(rows))
    calls = np.bincount(node[rows], minlength=len(nodes))
    return Spans(nodes, rows, node[rows], index[around[rows]], node[around], calls)


def _from_hierarchy(view: View) -> Spans:
    host, links = view.trace.host, view.links
    operators = np.flatnonzero(host.kind == HostKind.OPERATOR)
    # The nodes that `Module Hierarchy` texts name, and the node of each text.
    # `TOP(Net)::forward.fc(Linear)::forward.` is a `fc(Linear)` in a `Net`. Parts without a type are graphs.
    used = intervals.distinct(host.module[operators])
    numbers, nodes = dict[tuple[int, str], int](), list[Node]()
    of_text = np.full(len(view.trace.texts) + 1, NONE, np.int32)  # the last one is NONE
    for text in used[used >= 0].tolist():
        at = NONE
        for instance, kind in _PART.findall(view.trace.texts[text]):
            if not kind or instance == "SELF":
                continue
            part = kind if instance == "TOP" else f"{instance}({kind})"
            if (at, part) not in numbers:
                numbers[at, part] = len(nodes)
                nodes.append(Node(at, part, part))
            at = numbers[at, part]
        of_text[text] = at
    inside = np.full(len(host) + 1, NONE, np.int32)
    inside[operators] = of_text[host.module[operators]]
    inside[:-1] = inside[links.operator_of]
    outermost = inside[links.operator_around(operators)] != inside[operators]
    rows = operators[outermost & (inside[operators] >= 0)]
    module_rows = np.full(len(host), NONE, np.int32)
    module_rows[rows] = np.arange(len(rows))
    outer = of_host(intervals.inherit(links.calls, module_rows), links.calls.parent[rows])
    visited = operators[outermost | (inside[operators] < 0)]
    # Per node: how often a range enters it from outside, in the order of the ranges.
    node = inside[visited]
    before = np.append(NONE, node[:-1])[: len(node)]
    before[np.diff(host.thread[visited], prepend=NONE) != 0] = NONE
    calls = np.zeros(len(nodes), np.int64)
    pairs = group(before, node)
    for earlier, now, number in zip(
        *(codes.tolist() for codes in pairs.codes), pairs.sizes().tolist(), strict=True
    ):
        while now != earlier:  # up to the node around both; parents come before children
            if now > earlier:
                calls[now] += number
                now = nodes[now].parent
            else:
                earlier = nodes[earlier].parent
    return Spans(nodes, rows, inside[rows], outer, inside[:-1], calls)


def _table(view: View, spans: Spans, source: str) -> list[ModuleRow]:
    host, device, nodes = view.trace.host, view.trace.device, spans.nodes
    inside = np.append(spans.inside, NONE)

    def sums(node: Index, weights: Ints | None = None) -> Ints:
        in_module = node >= 0
        chosen = None if weights is None else weights[in_module]
        return np.bincount(node[in_module], chosen, minlength=len(nodes)).astype(np.int64)

    def with_children(own: Ints) -> Ints:
        whole = own.copy()
        for at in range(len(nodes) - 1, -1, -1):
            if nodes[at].parent >= 0:
                whole[nodes[at].parent] += whole[at]
        return whole

    duration = (host.end - host.start)[spans.rows]
    inner = np.flatnonzero(spans.outer >= 0)
    host_self = sums(spans.node, duration) - sums(spans.node[spans.outer[inner]], duration[inner])
    launched = np.flatnonzero(view.links.launch >= 0)
    device_self = sums(inside[view.links.launch[launched]], (device.end - device.start)[launched])
    operators = np.flatnonzero(host.kind == HostKind.OPERATOR)
    direct = operators[inside[view.links.operator_around(operators)] != inside[operators]]
    columns = {
        "calls": spans.calls,
        "operators": sums(inside[direct]),
        "host_total_ns": with_children(host_self),
        "host_self_ns": host_self,
        "device_total_ns": with_children(device_self),
        "device_self_ns": device_self,
    }
    behind = backward(view)
    if behind is not None:
        forward = inside[behind.forward]
        columns["backward_host_ns"] = with_children(sums(forward, behind.host_ns))
        columns["backward_device_ns"] = with_children(sums(forward, behind.device_ns))
    return _rows(view, spans, {name: column.tolist() for name, column in columns.items()}, source)


def _rows(view: View, spans: Spans, columns: dict[str, list[int]], source: str) -> list[ModuleRow]:
    """Rows in tree order; siblings by their first start."""
    nodes = spans.nodes
    begun = np.full(len(nodes), np.iinfo(np.int64).max)
    np.minimum.at(begun, spans.node, view.trace.host.start[spans.rows])
    children: dict[int, list[int]] = {}
    for at in range(len(nodes) - 1, -1, -1):
        parent = nodes[at].parent
        children.setdefault(parent, []).append(at)
        if parent >= 0:
            begun[parent] = min(begun[parent], begun[at])
    rows = list[ModuleRow]()

    def add(parent: int, above: str, depth: int) -> None:
        for at in sorted(children.get(parent, []), key=lambda each: (begun[each], each)):
            path = f"{above}/{nodes[at].label}" if above else nodes[at].label
            numbers = {name: column[at] for name, column in columns.items()}
            rows.append(
                ModuleRow(id=path, name=nodes[at].name, parent=above, depth=depth, source=source, **numbers)
            )
            add(at, path, depth + 1)

    add(NONE, "", 0)
    return rows


_is_engine = names.matching("^autograd::engine::evaluate_function")


class Backward(NamedTuple):
    """One entry a backward operator: arrays of one length."""

    root: Rows  # host row: autograd's `evaluate_function` around it, if the file has those, else itself
    forward: Rows  # host row of the operator that it is the backward of
    # host_ns, device_ns: of the root with all in it, but without other roots in it (checkpointing)
    host_ns: Ints
    device_ns: Ints


@once
def backward(view: View) -> Backward | None:
    """All of a trace; None if the file does not say."""
    host, device, links = view.trace.host, view.trace.device, view.links
    forward, behind = _by_arrows(view)
    if not len(forward):
        forward, behind = _by_sequence(view)
    if not len(forward):
        return None
    # `Backward.root` of operators
    engine = names.rows(view.trace.texts, host.name, _is_engine)
    around = intervals.inherit(links.calls, np.where(engine, np.arange(len(host)), NONE).astype(np.int32))
    root, first = np.unique(np.where(around[behind] >= 0, around[behind], behind), return_index=True)
    operator_rows = np.full(len(host), NONE, np.int32)
    operator_rows[root] = np.arange(len(root))
    index_of = intervals.inherit(links.calls, operator_rows)
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
