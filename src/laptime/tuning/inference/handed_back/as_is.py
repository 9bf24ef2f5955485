"""The model as it is, in PyTorch: what all others are raced against. It never leaves a session."""

import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


def load() -> Any:
    import torch

    from laptime.tuning.inference.draft import by_position, load_target
    from laptime.tuning.inference.samples import first_of

    settings = json.loads((HERE / "recipe.json").read_text())["settings"]
    names = settings["names"]
    sample = None if names is None else first_of(Path(settings["calibration"]), names)
    module, _ = by_position(load_target(settings["target"], sample, settings["device"]), settings["batch"])

    def model(*inputs: Any) -> Any:
        with torch.no_grad():
            return module(*inputs)

    return model
