"""What a runtime's profiler recorded, as rows by operator and shapes: a reader for each of its recorders.

ONNX Runtime: events of the category Node have the operator, and types and shapes of its inputs and outputs;
weights that were packed beforehand are missing there. An event of the category Session named model_run is a
call.

OpenVINO: times are those of `get_profiling_info`, shapes and the precision of nodes those of
`get_runtime_model`. All tensors of a node are taken to be in its precision: at least so many bytes are moved.

PyTorch: rows are counted as those of any trace. A compiled model is kernels that torch.profiler does not
see, and a few operators that it calls: the rest of a call is `fused kernels` then, without FLOP.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from laptime.analysis import node_work
from laptime.analysis.operator_formulas import Tensor
from laptime.records.overview import Work
from laptime.trace import profile
from laptime.trace.reading import reader
from laptime.trace.tables import work


class Node(NamedTuple):
    """One node: its inputs and outputs as far as they are known; calls and nanoseconds of all of them."""

    op: str
    inputs: Sequence[Tensor]
    outputs: Sequence[Tensor]
    calls: int
    ns: int


def rows_of(nodes: Sequence[Node]) -> list[Work]:
    """A row by operator, types and shapes; one whose work the shapes do not show is not counted."""
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


_SIZES = {
    **dict.fromkeys(("float", "int32", "uint32"), 4),
    **dict.fromkeys(("double", "int64", "uint64"), 8),
    **dict.fromkeys(("float16", "bfloat16", "int16", "uint16"), 2),
    **dict.fromkeys(("int8", "uint8", "bool"), 1),
}
_NAMES = {"float": "float32", "double": "float64"}
_CONTAINERS = ("If", "Loop", "Scan")
"""Nodes that run others, which are events of their own."""


def of_onnx_runtime(place: Path, about: Mapping[str, Any], *, is_compiled: bool = False) -> list[Work]:
    """Work of all recorded calls, which are the last ones of the file.

    Args:
        place: the profile. about: see `recording.process`. is_compiled: is not asked.
    """
    events = json.loads(place.read_text(encoding="utf-8"))
    runs = sorted(each["ts"] for each in events if each.get("name") == "model_run")
    first = runs[-int(about["calls"])]
    nodes = [each for each in events if each.get("cat") == "Node" and each["ts"] >= first]
    return rows_of([_onnx_node(each) for each in nodes if each["args"]["op_name"] not in _CONTAINERS])


def _onnx_node(event: Mapping[str, Any]) -> Node:
    args = event["args"]
    inputs, outputs = (_tensors(args.get(f"{side}_type_shape", [])) for side in ("input", "output"))
    return Node(args["op_name"], inputs, outputs, 1, int(event["dur"]) * 1000)


def _tensors(listed: list[dict[str, list[int]]]) -> list[Tensor]:
    """`[{"float": [1, 3, 224, 224]}, ...]`; what is no tensor of numbers is left out."""
    return [
        Tensor(shape, _NAMES.get(kind, kind), _SIZES[kind])
        for each in listed
        for kind, shape in each.items()
        if kind in _SIZES
    ]


_TYPES = {
    **{"f64": ("float64", 8), "f32": ("float32", 4), "f16": ("float16", 2), "bf16": ("bfloat16", 2)},
    **{"i64": ("int64", 8), "i32": ("int32", 4), "i8": ("int8", 1), "u8": ("uint8", 1)},
    "boolean": ("bool", 1),
}


def of_openvino(place: Path, about: Mapping[str, Any], *, is_compiled: bool = False) -> list[Work]:
    """Work of all recorded calls.

    Args:
        place: the nodes. about: see `recording.process`. is_compiled: is not asked.
    """
    nodes = json.loads(place.read_text(encoding="utf-8"))["nodes"]
    return rows_of([_openvino_node(each) for each in nodes])


def _openvino_node(node: Mapping[str, Any]) -> Node:
    kind = _TYPES.get(node["type"])
    inputs, outputs = (
        [Tensor(shape, *kind) for shape in node[side]] if kind else [] for side in ("inputs", "outputs")
    )
    return Node(node["op"], inputs, outputs, node["calls"], node["us"] * 1000)


FUSED = "fused kernels"
_COMPILED = ("Torch-Compiled Region", "## Call CompiledFxGraph")
"""How names begin of ranges that a graph of torch.compile runs in."""


def of_pytorch(place: Path, about: Mapping[str, Any], *, is_compiled: bool = False) -> list[Work]:
    """Work of all recorded calls.

    Args:
        place: the trace. about: see `recording.process`. is_compiled: the folder has a compiled package.
    """
    view = profile.view(reader.read(place, processes=1))
    made = work.works(view)
    if is_compiled or any(text.startswith(_COMPILED) for text in view.trace.texts):
        made += _rest(made, float(about["seconds"]) * int(about["calls"]), int(about["calls"]))
    return made


def _rest(made: Iterable[Work], seconds: float, calls: int) -> list[Work]:
    rest = round(seconds * 1e9) - sum(row.total_ns for row in made)
    if rest <= 0:
        return []
    row = Work(id=FUSED, kind="fused", name=FUSED, calls=calls, total_ns=rest, uncounted_ns=rest)
    return [row]


READERS = {"pytorch": of_pytorch, "onnx_runtime": of_onnx_runtime, "openvino": of_openvino}
