"""The model as it is, in PyTorch: what all others are raced against. It never leaves a session."""

import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


def load() -> Any:
    import torch

    from laptime.tuning.inference.draft import target_module

    settings = json.loads((HERE / "recipe.json").read_text())["settings"]
    module, _ = target_module(settings["target"], settings["batch"])

    def model(*inputs: Any) -> Any:
        with torch.no_grad():
            return module(*inputs)

    return model
