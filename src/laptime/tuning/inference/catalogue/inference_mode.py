"""`torch.inference_mode()` in place of `torch.no_grad()`, around a graph of torch.export.

Saves version counters and view tracking: microseconds an operator, so it shows in small models only.
Lies when: outputs are used in a computation with gradients later, which then raises.
Source: pytorch.org/docs, torch.autograd.grad_mode.inference_mode.
"""

from laptime.tuning.inference.catalogue import _torch_only
from laptime.tuning.inference.draft import Draft
from laptime.tuning.optimization import Options

TITLE = "inference mode"
NUMERICS = "exact"
SAVES = 0.15
PRIOR = 0.1
NEEDS = _torch_only.NEEDS
SETTINGS = True


def apply(draft: Draft, options: Options) -> None:
    """A setting of `tuned.py`."""
    draft.settings["inference_mode"] = True
