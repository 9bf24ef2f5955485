"""What ONNX Runtime's profiler recorded: a row by operator and shapes.

Events of the category Node have the operator, and types and shapes of its inputs and outputs; weights that
were packed beforehand are missing there. An event of the category Session named model_run is a call.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from laptime.analysis.operator_formulas import Tensor
from laptime.records.roofline import Work
from laptime.tuning.inference.recording.nodes import Node, rows_of

_SIZES = {
    **dict.fromkeys(("float", "int32", "uint32"), 4),
    **dict.fromkeys(("double", "int64", "uint64"), 8),
    **dict.fromkeys(("float16", "bfloat16", "int16", "uint16"), 2),
    **dict.fromkeys(("int8", "uint8", "bool"), 1),
}
_NAMES = {"float": "float32", "double": "float64"}
_CONTAINERS = ("If", "Loop", "Scan")
"""Nodes that run others, which are events of their own."""


def rows(place: Path, about: Mapping[str, Any], *, is_compiled: bool = False) -> list[Work]:
    """Work of all recorded calls, which are the last ones of the file.

    Args:
        place: the profile. about: see `recording.process`. is_compiled: is not asked.
    """
    events = json.loads(place.read_text(encoding="utf-8"))
    runs = sorted(each["ts"] for each in events if each.get("name") == "model_run")
    first = runs[-int(about["calls"])]
    nodes = [each for each in events if each.get("cat") == "Node" and each["ts"] >= first]
    return rows_of([_node(each) for each in nodes if each["args"]["op_name"] not in _CONTAINERS])


def _node(event: Mapping[str, Any]) -> Node:
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
