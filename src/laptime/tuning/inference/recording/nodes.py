"""Nodes of a graph as a runtime's profiler has seen them, as rows by operator and shapes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from laptime.analysis import node_work
from laptime.analysis.operator_formulas import Tensor
from laptime.records.roofline import Work


class Node(NamedTuple):
    """One node: its inputs and outputs as far as they are known; calls and nanoseconds of all of them."""

    op: str
    inputs: Sequence[Tensor]
    outputs: Sequence[Tensor]
    calls: int
    ns: int


def rows_of(nodes: Sequence[Node]) -> list[Work]:
    """A row by operator, types and shapes; one whose work the shapes do not tell is not counted."""
    groups = defaultdict[str, list[Node]](list)
    for node in nodes:
        groups[f"{node.op} {_shapes(node)}"].append(node)
    return [_row(name, each) for name, each in groups.items()]


def _shapes(node: Node) -> str:
    return ", ".join(f"{each.dtype}{list(each.shape)}" for each in node.inputs)


def _row(name: str, nodes: Sequence[Node]) -> Work:
    first, ns, calls = nodes[0], sum(node.ns for node in nodes), sum(node.calls for node in nodes)
    counted = [(node.calls, node_work.work(node.op, node.inputs, node.outputs)) for node in nodes]
    known = [(number, each) for number, each in counted if each is not None]
    is_counted = len(known) == len(counted)
    flop = float(sum(number * each.flop for number, each in known))
    return Work(
        id=name,
        kind=node_work.kind_of(first.op),
        name=first.op,
        shapes=_shapes(first),
        calls=calls,
        total_ns=ns,
        uncounted_ns=0 if is_counted else ns,
        flop={known[0][1].dtype: flop} if is_counted and flop else {},
        bytes=float(sum(number * each.bytes for number, each in known)) if is_counted else None,
    )
