"""A graph of torch.export, or a compiled package. `load()` gives a callable: tensors in and out."""

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
    is_inference = settings.get("inference_mode") and not settings.get("packaged")
    guard = torch.inference_mode if is_inference else torch.no_grad
    nhwc, last = settings.get("channels_last"), torch.channels_last
    if settings.get("packaged"):
        run: Any = torch._inductor.aoti_load_package(str(HERE / "compiled.pt2"))
    else:
        run = torch.export.load(HERE / "model.pt2").module()

    def model(*inputs: Any) -> Any:
        with guard():
            if nhwc:
                inputs = tuple(x.contiguous(memory_format=last) if x.ndim == 4 else x for x in inputs)
            return run(*inputs)

    return model
