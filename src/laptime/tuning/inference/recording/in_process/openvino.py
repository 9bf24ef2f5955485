"""Calls of a model that OpenVINO runs, recorded by its own counters (`PERF_COUNT`)."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any


class Recorder:
    """Made before the folder is loaded: models are compiled with counters or without.

    Args:
        place: the file that is written: the nodes that ran, with microseconds of all recorded calls.
    """

    def __init__(self, place: Path) -> None:
        import openvino

        self._place, self._made = place, list[Any]()
        compiled_of = openvino.Core.compile_model

        def compile_model(core: Any, model: Any, device: Any = None, config: Any = None) -> Any:
            compiled = compiled_of(core, model, device, {**(config or {}), "PERF_COUNT": "YES"})
            return _Compiled(compiled, self._made)

        openvino.Core.compile_model = compile_model

    def record(self, model: Callable[..., Any], inputs: Sequence[Any], calls: int) -> dict[str, Any]:
        """Record so many calls; seconds of one, and what runs them."""
        import openvino

        compiled, request = self._made[-1]
        seconds = 0.0
        spent, executed = Counter[str](), Counter[str]()
        for _ in range(calls):
            began = time.perf_counter()
            model(*inputs)
            seconds += time.perf_counter() - began
            for each in request.get_profiling_info():
                if str(each.status).endswith("EXECUTED"):
                    spent[each.node_name] += round(each.real_time.total_seconds() * 1e6)
                    executed[each.node_name] += 1
        nodes = [
            {**_node(node), "calls": executed[name], "us": spent[name]}
            for node in compiled.get_runtime_model().get_ordered_ops()
            if (name := node.get_friendly_name()) in executed
        ]
        self._place.write_text(json.dumps({"nodes": nodes}), encoding="utf-8")
        return {
            "seconds": seconds / calls,
            "threads": int(compiled.get_property("INFERENCE_NUM_THREADS")),
            "recorder": f"OpenVINO {openvino.__version__.partition('-')[0]}, PERF_COUNT",
        }


class _Compiled:
    """A compiled model that keeps the requests that are made of it."""

    def __init__(self, compiled: Any, made: list[Any]) -> None:
        self._compiled, self._made = compiled, made

    def create_infer_request(self) -> Any:
        request = self._compiled.create_infer_request()
        self._made.append((self._compiled, request))
        return request

    def __getattr__(self, name: str) -> Any:
        return getattr(self._compiled, name)


def _node(node: Any) -> dict[str, Any]:
    about = node.get_rt_info()
    return {
        "op": str(about["layerType"].value),
        "type": str(about["runtimePrecision"].value),
        "inputs": [list(each.get_shape()) for each in node.inputs()],
        "outputs": [list(each.get_shape()) for each in node.outputs()],
    }
