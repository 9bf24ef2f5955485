"""A graph of torch.export, or a compiled package. `load()`: tensors in and out, by any thread."""

import ctypes
import json
import os
from itertools import zip_longest
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
    guard: Any = torch.no_grad
    nhwc, last = settings.get("channels_last"), torch.channels_last
    if settings.get("packaged"):
        run: Any = torch._inductor.aoti_load_package(str(HERE / "compiled.pt2"))
    else:
        run = torch.export.load(HERE / "model.pt2").module()
        guard = torch.inference_mode if settings.get("inference_mode") else guard

    def model(*inputs: Any) -> Any:
        for x, sizes in zip(inputs, settings["takes"], strict=True):
            if not all(n == m or (m is None and n) for n, m in zip_longest(x.shape, sizes, fillvalue=0)):
                raise ValueError(f"{list(x.shape)} does not fit {sizes}; None is any size but 0")
        with guard():
            if nhwc:
                inputs = tuple(x.contiguous(memory_format=last) if x.ndim == 4 else x for x in inputs)
            return run(*inputs)

    return model
