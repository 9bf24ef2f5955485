"""A graph of torch.export. `load()` gives a callable: tensors in, what the model gives out."""

import ctypes
import json
import os
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


def load() -> Any:
    import torch

    settings = json.loads((HERE / "recipe.json").read_text())["settings"]
    os.environ.update(settings.get("environment", {}))  # torch reads it when it makes its first tensor
    for name, value in settings.get("malloc", ()):  # mallopt(3)
        ctypes.CDLL(None).mallopt(name, value)
    torch.set_flush_denormal(settings.get("flush_denormal", False))
    if settings.get("threads"):
        torch.set_num_threads(settings["threads"])
    graph = torch.export.load(HERE / "model.pt2").module()
    guard = torch.inference_mode if settings.get("inference_mode") else torch.no_grad
    nhwc = settings.get("channels_last")

    def model(*inputs: Any) -> Any:
        with guard():
            if nhwc:
                inputs = tuple(
                    x.contiguous(memory_format=torch.channels_last) if x.ndim == 4 else x for x in inputs
                )
            return graph(*inputs)

    return model
