"""What an event on a thread of the host is, told by its name, and what to call it.

TensorFlow names an operation that it runs `layer/MatMul:MatMul`: place in the graph, type. It becomes an
operator `MatMul` that was called from `layer/MatMul`. Cheap operations have no event of their own; they are
in `ExecutorState::Process`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from laptime.trace.columns import HostKind
from laptime.trace.reading.xplane.space import Fact, Kind

_OPERATION = re.compile(r"^([\w.][\w.\-/\\]*):([A-Za-z_]\w*)$")
_EAGER = "EagerLocalExecute: "
_FRAME = re.compile(r"^\$?(.+\.py):(\d+) (.+)$")
_MOMENT = re.compile(r"^ThreadpoolListener::")
_NAMED = re.compile(
    r"^((MultiDevice)?IteratorGetNext\w*::DoCompute$|Iterator::|MakeIterator::|Prefetch(Produce|Consume)$"
    r"|tf\.function-graph_building$)"
)
_CALL = re.compile(r"^(cu|cuda)[A-Z]\w*$")
_EXECUTOR = "ExecutorState::Process"


class Sort(NamedTuple):
    """A kind of host range, its name, and the place in the graph that it was called from."""

    kind: HostKind
    name: str
    place: str = ""


def sort(kind: Kind, facts: Mapping[str, Fact]) -> Sort | None:
    """What this event is; None for what has no duration to tell."""
    name = kind.name or kind.shown
    if not name or _MOMENT.match(name):
        return None
    if "tf_function_call" in facts or "step_num" in facts:
        return Sort(HostKind.ANNOTATION, name)
    if operation := _OPERATION.match(name):
        return Sort(HostKind.OPERATOR, operation[2], operation[1])
    if name.startswith(_EAGER):
        called = name.removeprefix(_EAGER)
        return Sort(HostKind.ANNOTATION if called.startswith("__") else HostKind.OPERATOR, called)
    if "correlation_id" in facts and _CALL.match(name):
        return Sort(HostKind.RUNTIME if name.startswith("cuda") else HostKind.DRIVER, name)
    if name == _EXECUTOR:
        return Sort(HostKind.OPERATOR, name)
    if name.startswith("$"):
        frame = _FRAME.match(name)
        return Sort(HostKind.PYTHON, f"{frame[1]}({frame[2]}): {frame[3]}" if frame else name[1:])
    return Sort(HostKind.ANNOTATION if _NAMED.match(name) else HostKind.OTHER, name)
