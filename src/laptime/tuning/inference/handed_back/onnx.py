"""An ONNX model under ONNX Runtime. `load()`: tensors (or arrays) in, the same kind out, by any thread."""

import json
from itertools import zip_longest
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


def load() -> Any:
    import numpy
    import onnxruntime

    settings = json.loads((HERE / "recipe.json").read_text())["settings"]
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.set_denormal_as_zero", str(int("flush_denormal" in settings)))
    options.intra_op_num_threads = settings.get("threads", 0)  # 0: its own choice
    if settings.get("level"):
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, settings["level"])
    session = onnxruntime.InferenceSession(HERE / "model.onnx", options, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()]
    keys = settings["outputs"]

    def model(*inputs: Any) -> Any:
        for x, sizes in zip(inputs, settings["takes"], strict=True):
            if not all(n == m or (m is None and n) for n, m in zip_longest(x.shape, sizes, fillvalue=0)):
                raise ValueError(f"{list(x.shape)} does not fit {sizes}; None is any size but 0")
        given = [x.float() if "bfloat16" in str(x.dtype) else x for x in inputs]  # NumPy has none
        outputs = session.run(None, dict(zip(names, map(numpy.asarray, given), strict=True)))
        if inputs and not isinstance(inputs[0], numpy.ndarray):
            torch, types = __import__("torch"), settings["output_types"]
            both = zip(outputs, types, strict=True)
            outputs = [torch.from_numpy(y).to(getattr(torch, name)) for y, name in both]
        outputs = [key if key is None else outputs.pop(0) for key in keys or [*outputs]]
        if keys is None:
            return outputs[0]
        return dict(zip(keys, outputs, strict=True)) if any(keys) else tuple(outputs)

    return model
