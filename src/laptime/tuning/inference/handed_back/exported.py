"""A graph of torch.export. `load()` gives a callable: tensors in, what the model gives out."""

import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


def load() -> Any:
    import torch

    settings = json.loads((HERE / "recipe.json").read_text())["settings"]
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
