"""The tree of nn.Modules, forward and backward.

From the Python functions `nn.Module: NAME` of a trace, or from the `Module Hierarchy` that operators of
TorchScript models have, whichever names more. A node is a place in the tree: a module that two others call is
two nodes. Device time is that of what was launched inside. Sums of durations, not unions. The backward of a
module is that of the operators in it; gradients being accumulated belong to no module.

Lies when: from `Module Hierarchy`, host time is that of operators only, and calls that follow each other
with no operator of another module in between count as one.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from laptime.records.tables import ModuleRow
from laptime.trace import names, range_tree, stacks
from laptime.trace.backward import backward
from laptime.trace.columns import NONE, HostKind, Index, Ints, Mask, Rows
from laptime.trace.groups import group
from laptime.trace.links import of_host
from laptime.trace.view import View

_PART = re.compile(r"(?:^|\.)([^.()]*)\(([^()]*)\)::")
_NUMBERED = re.compile(r"_\d+$")
_is_module = names.matching(f"^{stacks.MODULE}")


class Node(NamedTuple):
    """A place in the tree: number of the node above (NONE for roots), name, and name in ids."""

    parent: int
    name: str
    label: str


class Spans(NamedTuple):
    """Ranges of modules.

    Attributes:
        nodes: parents come before children.
        rows: host rows that are calls of modules, or in `Module Hierarchy` the outermost operators of one.
        node: per row its node. outer: per row the one that it lies in, an index into rows; NONE without.
        inside: per host row the node that it lies in; NONE without.
        calls: per node.
    """

    nodes: list[Node]
    rows: Rows
    node: Index
    outer: Index
    inside: Index
    calls: Ints


def modules(view: View) -> list[ModuleRow]:
    """One row a node, in tree order; none where the trace has no modules."""
    host, texts = view.trace.host, view.trace.texts
    functions = (host.kind == HostKind.PYTHON) & names.rows(texts, host.name, _is_module)
    sources = {"python": _from_functions(view, functions)} if functions.any() else {}
    if any(texts[at] for at in np.unique(host.module[host.module >= 0])):
        sources["hierarchy"] = _from_hierarchy(view)
    source = max(sources, key=lambda each: len(sources[each].nodes), default="")
    return _table(view, sources[source], source) if source and sources[source].nodes else []


def _from_functions(view: View, take: Mask) -> Spans:
    host, texts = view.trace.host, view.trace.texts
    around = stacks.enclosing(view, take)
    nodes = list[Node]()
    node = np.full(len(host) + 1, NONE, np.int32)  # the last one is NONE
    for level in range_tree.levels(range_tree.build(host, take)):
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
    nodes, of_text = _hierarchies(view, np.unique(host.module[operators]))
    inside = np.full(len(host) + 1, NONE, np.int32)
    inside[operators] = of_text[host.module[operators]]
    inside[:-1] = inside[links.operator_of]
    outermost = inside[links.operator_around(operators)] != inside[operators]
    rows = operators[outermost & (inside[operators] >= 0)]
    module_rows = np.full(len(host), NONE, np.int32)
    module_rows[rows] = np.arange(len(rows))
    outer = of_host(range_tree.inherit(links.calls, module_rows), links.calls.parent[rows])
    visited = operators[outermost | (inside[operators] < 0)]
    calls = _entries(nodes, inside[visited], host.thread[visited])
    return Spans(nodes, rows, inside[rows], outer, inside[:-1], calls)


def _hierarchies(view: View, used: Rows) -> tuple[list[Node], Index]:
    """The nodes that `Module Hierarchy` texts name, and the node of each text.

    `TOP(Net)::forward.fc(Linear)::forward.` is a `fc(Linear)` in a `Net`. Parts without a type are graphs.
    """
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
    return nodes, of_text


def _entries(nodes: list[Node], node: Index, thread: Index) -> Ints:
    """Per node: how often a range enters it from outside, in the order of the ranges."""

    before = np.append(NONE, node[:-1])[: len(node)]
    before[np.diff(thread, prepend=NONE) != 0] = NONE
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
    return calls


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
