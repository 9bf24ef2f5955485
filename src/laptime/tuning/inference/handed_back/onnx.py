"""An ONNX model under ONNX Runtime. `load()` gives a callable: tensors (or arrays) in, the same kind out."""

import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


def load() -> Any:
    import numpy
    import onnxruntime

    settings = json.loads((HERE / "recipe.json").read_text())["settings"]
    options = onnxruntime.SessionOptions()
    zeros = str(int(settings.get("flush_denormal", False)))
    options.add_session_config_entry("session.set_denormal_as_zero", zeros)
    if settings.get("threads"):
        options.intra_op_num_threads = settings["threads"]
    if settings.get("level"):
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, settings["level"])
    session = onnxruntime.InferenceSession(HERE / "model.onnx", options, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()]
    keys = settings["outputs"]

    def model(*inputs: Any) -> Any:
        arrays = [numpy.asarray(each) for each in inputs]
        outputs = session.run(None, dict(zip(names, arrays, strict=True)))
        if inputs and not isinstance(inputs[0], numpy.ndarray):
            import torch

            outputs = list(map(torch.from_numpy, outputs))
        if keys is None:
            return outputs[0]
        return dict(zip(keys, outputs, strict=True)) if keys else tuple(outputs)

    return model
