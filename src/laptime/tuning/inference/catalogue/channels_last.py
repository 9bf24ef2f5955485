"""Weights and 4-d inputs in memory format channels_last (NHWC), which convolution kernels of CPUs prefer.

Lies when: operators in between give the layout up again, and every call pays for copies.
Source: pytorch.org/tutorials, channels last memory format.
"""

from laptime.tuning.inference.catalogue import _torch_only
from laptime.tuning.inference.draft import Draft
from laptime.tuning.optimization import Options

TITLE = "memory format channels_last"
NUMERICS = "reassociated"
SAVES = 0.5
PRIOR = 0.3
NEEDS = _torch_only.NEEDS | {"conv"}


def apply(draft: Draft, options: Options) -> None:
    """The module's 4-d weights and the traced inputs; `tuned.py` lays out those of each call."""
    import torch

    draft.module = draft.module.to(memory_format=torch.channels_last)
    draft.inputs = [
        each.contiguous(memory_format=torch.channels_last) if each.ndim == 4 else each
        for each in draft.inputs
    ]
    draft.settings["channels_last"] = True
