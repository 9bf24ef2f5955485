"""What OpenVINO's counters recorded: a row by operator and shapes.

Times are those of `get_profiling_info`, shapes and the precision of nodes those of `get_runtime_model`. All
tensors of a node are taken to be in its precision: at least so many bytes are moved.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from laptime.analysis.operator_formulas import Tensor
from laptime.records.roofline import Work
from laptime.tuning.inference.recording.nodes import Node, rows_of

_TYPES = {
    **{"f64": ("float64", 8), "f32": ("float32", 4), "f16": ("float16", 2), "bf16": ("bfloat16", 2)},
    **{"i64": ("int64", 8), "i32": ("int32", 4), "i8": ("int8", 1), "u8": ("uint8", 1)},
    "boolean": ("bool", 1),
}


def rows(place: Path, about: Mapping[str, Any], *, is_compiled: bool = False) -> list[Work]:
    """Work of all recorded calls.

    Args:
        place: the nodes. about: see `recording.process`. is_compiled: is not asked.
    """
    nodes = json.loads(place.read_text(encoding="utf-8"))["nodes"]
    return rows_of([_node(each) for each in nodes])


def _node(node: Mapping[str, Any]) -> Node:
    kind = _TYPES.get(node["type"])
    inputs, outputs = (
        [Tensor(shape, *kind) for shape in node[side]] if kind else [] for side in ("inputs", "outputs")
    )
    return Node(node["op"], inputs, outputs, node["calls"], node["us"] * 1000)
