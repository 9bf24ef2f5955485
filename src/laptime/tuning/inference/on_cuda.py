"""A CUDA device as the place of a model: whether there is one, and what it computes fast."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laptime.backends.torch import place
from laptime.tuning.inference.reference import compilers
from laptime.tuning.trial.diagnosis.facts import by_capability

if TYPE_CHECKING:
    import torch


def chosen(name: str) -> str:
    """The device of a name; "auto" is the first CUDA device, else the CPU: folders run on nothing else."""
    if name != "auto":
        return name
    return next((each for each in place.present() if each.startswith("cuda")), "cpu")


def facts(device: torch.device) -> frozenset[str]:
    """What a CUDA device has for any model: facts of `tuning.loop_profile.FACT_SENTENCES`."""
    import torch

    fast = {"bf16", "fp16"} if torch.version.hip else by_capability(torch.cuda.get_device_capability(device))
    return frozenset({"cuda"} | fast | compilers())
