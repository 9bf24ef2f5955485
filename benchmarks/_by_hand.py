"""A model as a user runs it who picks a runtime by hand: what tune_model.py holds the tuned one against.

Each way is a folder like those that are raced, whose `load()` comes from here.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

Model = Callable[..., Any]

REQUESTS = 16
"""Requests that one call hands to an asynchronous queue: then it waits for all of them."""
TUNED = """import sys

sys.path[:0] = [{benchmarks!r}]
from pathlib import Path

import _by_hand


def load():
    return _by_hand.{way}(Path(__file__).resolve().parent, **{options!r})
"""


def write(folder: Path, way: str, target: str, batch: int, **options: Any) -> Path:
    """A folder whose `load()` is a function of this file.

    Args:
        options: of the function.
    """
    folder.mkdir()
    benchmarks = str(Path(__file__).resolve().parent)
    (folder / "tuned.py").write_text(TUNED.format(benchmarks=benchmarks, way=way, options=options))
    (folder / "recipe.json").write_text(json.dumps({"target": target, "batch": batch}))
    return folder


def _module(folder: Path) -> Any:
    from laptime.tuning.inference.draft import by_position, load_target

    about = json.loads((folder / "recipe.json").read_text())
    return by_position(load_target(about["target"]), about["batch"])[0]


def pickled(folder: Path) -> None:
    """The module itself and the tensors of a call by their names: what another tool is given."""
    import inspect

    import numpy as np
    import torch

    from laptime.backends._onnx.exporting import call_of
    from laptime.tuning.inference.draft import load_target

    about = json.loads((folder / "recipe.json").read_text())
    module, args, named = call_of(load_target(about["target"], None).workload(about["batch"]))
    given = {**dict(zip(inspect.signature(module.forward).parameters, args, strict=False)), **named}
    torch.save(module, folder / "module.pt")
    np.savez(folder / "inputs.npz", **{name: each.numpy() for name, each in given.items()})


def eager(folder: Path) -> Model:
    """PyTorch in inference mode."""
    import torch

    return torch.inference_mode()(_module(folder))


def compiled(folder: Path, *, frozen: bool) -> Model:
    """torch.compile with its defaults, or with weights frozen, which it does without gradients only."""
    import torch
    import torch._inductor.config

    torch._inductor.config.freezing = frozen
    return torch.no_grad()(torch.compile(_module(folder)))


def onnxruntime(folder: Path, *, file: str, session: dict[str, Any] | None = None) -> Model:
    """ONNX Runtime with its defaults, or with options of a session; their enums are numbers."""
    import onnxruntime as runtime

    options = runtime.SessionOptions()
    kinds = {
        "execution_mode": runtime.ExecutionMode,
        "graph_optimization_level": runtime.GraphOptimizationLevel,
    }
    for name, value in (session or {}).items():
        if value is not None:
            setattr(options, name, kinds.get(name, int)(value))
    program = runtime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    names = [each.name for each in program.get_inputs()]

    def model(*inputs: Any) -> Any:
        return program.run(None, {name: each.numpy() for name, each in zip(names, inputs, strict=True)})

    return model


def openvino(folder: Path, *, file: str, hint: str, precision: str) -> Model:
    """OpenVINO with a performance hint, compiled for the shapes of the first call; "": its own precision.

    With the hint for throughput a call is REQUESTS requests of the optimal number of streams.
    """
    import openvino as ov

    properties = {"PERFORMANCE_HINT": hint, **({"INFERENCE_PRECISION_HINT": precision} if precision else {})}
    ready: list[Any] = []

    def prepare(arrays: list[Any]) -> Any:
        core = ov.Core()
        graph = core.read_model(file)
        graph.reshape(dict(zip(graph.inputs, [ov.PartialShape(each.shape) for each in arrays], strict=True)))
        program = core.compile_model(graph, "CPU", properties)
        return ov.AsyncInferQueue(program) if hint == "THROUGHPUT" else program.create_infer_request()

    def model(*inputs: Any) -> Any:
        arrays = [each.numpy() for each in inputs]
        if not ready:
            ready.append(prepare(arrays))
        if hint == "LATENCY":
            return ready[0].infer(arrays, share_inputs=True).to_tuple()
        for _ in range(REQUESTS):
            ready[0].start_async(arrays, share_inputs=True)
        ready[0].wait_all()
        return arrays[0]

    return model


if __name__ == "__main__":
    pickled(Path(sys.argv[1]))
