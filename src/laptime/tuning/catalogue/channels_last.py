"""Memory format channels_last: convolutions read neighbouring channels, the layout that fast kernels want.

Source: PyTorch tutorial "Channels Last Memory Format in PyTorch"; oneDNN, cuDNN and XNNPACK all compute in
it.
Lies when: the model permutes its activations often; then layouts are converted back and forth.
"""

from __future__ import annotations

from typing import Any

from laptime.tuning.optimization import Options
from laptime.tuning.situation import Situation

TITLE = "memory format channels_last"
NUMERICS = "reassociated"
TOGGLE = "live"
NEEDS = frozenset({"conv", "!channels_last"})
GIVES = frozenset({"channels_last"})
CONFLICTS: frozenset[str] = frozenset()


def propose(situation: Situation) -> list[Options]:
    """Once, for models with convolutions."""
    return [{}]


def bound(situation: Situation, options: Options) -> float:
    """Half of forward and backward: oneDNN and cuDNN were seen to gain up to 2x, never more."""
    return 0.5 * situation.share("forward", "backward")


def apply(loop: Any, options: Options) -> None:
    """Parameters and buffers of every trained model; its inputs follow the first convolution's weight."""
    import torch

    def convert(model: Any) -> Any:
        model.to(memory_format=torch.channels_last)
        return lambda: model.to(memory_format=torch.contiguous_format)

    loop.model(convert)


def edit(script: Any, options: Options) -> None:
    """One line behind the optimizer."""
    script.after_model("{model}.to(memory_format=torch.channels_last)")
