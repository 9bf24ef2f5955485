"""What `laptime tune MODEL` finds on CUDA, with and without changes of precision, as a table.

    python benchmarks/device/tune_model.py [--budget 4m] [--batch 1,32] [TARGET ...]

One session a row. The gain is that over the model as it is on the same device, measured afresh in new
processes, with its 95 % interval. Without a CUDA device there is nothing to show.
"""

from __future__ import annotations

import argparse
import sys

from laptime.kit.errors import LaptimeError
from laptime.kit.units import seconds
from laptime.records.tuning import Tuning
from laptime.tuning.inference.request import ModelRequest
from laptime.tuning.inference.subject import tune_model

TARGETS = ("torchvision:resnet18", "torchvision:efficientnet_b0", "torchvision:vit_b_16")


def row(target: str, batch: int, allow: list[str], budget: float) -> str:
    """One session as a row of the table."""
    request = ModelRequest(
        target=target, batch=batch, allow=allow, budget=budget, device="cuda", goal="latency", save=False
    )
    try:
        tuning = tune_model(request).tuning or Tuning()
    except LaptimeError as error:
        return f"| {target} | {batch} | {error.what}: {error.why} | | | |"
    kept = ", ".join(f"`{each.name}`" for each in tuning.recipe) or "as it is"
    gain = tuning.speedup
    shown = f"{gain.value:.2f}x [{gain.ci95[0]:.2f}, {gain.ci95[1]:.2f}]" if gain else "-"
    return f"| {target} | {batch} | {', '.join(allow) or '-'} | {kept} | {shown} | {tuning.gate.word} |"


def main() -> int:
    """Print one row for each target, batch size and class of changes."""
    import torch

    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("targets", nargs="*", default=TARGETS)
    asked.add_argument("--budget", type=seconds, default=240.0)
    asked.add_argument("--batch", default="1,32")
    options = asked.parse_args()
    if not torch.cuda.is_available():
        print("skipped: no CUDA device")
        return 0
    print(f"{torch.cuda.get_device_properties(0).name}, torch {torch.__version__}\n")
    print("| target | batch | allowed | kept | gain | gate |")
    print("| --- | --- | --- | --- | --- | --- |")
    for target in options.targets:
        for batch in map(int, options.batch.split(",")):
            for allow in ([], ["precision"]):
                print(row(target, batch, allow, options.budget), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
