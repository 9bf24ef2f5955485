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
    torch.set_num_threads(settings.get("threads") or torch.get_num_threads())
    guard: Any = torch.no_grad
    nhwc, last, first = settings.get("channels_last"), torch.channels_last, torch.contiguous_format
    if settings.get("packaged"):
        run: Any = torch._inductor.aoti_load_package(str(HERE / "compiled.pt2"))
    else:
        run = torch.export.load(HERE / "model.pt2").module()
        guard = torch.inference_mode if settings.get("inference_mode") else guard

    def model(*inputs: Any) -> Any:
        known: dict[str, int] = {}  # open sizes
        for x, sizes, kind in zip(inputs, settings["takes"], settings["types"], strict=True):
            both = zip_longest(x.shape, sizes, fillvalue=0)
            fit = all(n == (m if isinstance(m, int) else known.setdefault(m, n or -1)) for n, m in both)
            if not fit or str(x.dtype) != kind:  # a package reads any memory as what it was compiled for
                raise ValueError(f"{x.dtype}{list(x.shape)} is not {kind}{sizes}; names are any size but 0")
        with guard():
            return run(*(x.contiguous(memory_format=last if nhwc and x.ndim == 4 else first) for x in inputs))

    return model
