"""Inputs for a model that came without any: guessed from its first layer, and marked as guessed.

Lies when: the layer registered first is not the one called first, or the model wants another size.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

_IMAGE = 224
_TOKENS = 128
_SIGNAL = 1024
_VOLUME = (16, 112, 112)


def guess(model: torch.nn.Module) -> tuple[Callable[[int], Any], str] | None:
    """A maker of inputs and the reason for it; None when no layer tells.

    Conv2d gives (B, in, 224, 224), Conv1d (B, in, 1024), Conv3d (B, in, 16, 112, 112), Linear (B, in),
    Embedding int64 ids (B, 128), recurrent layers (B, 128, in); a timm configuration its own input size.
    """
    import torch

    config = getattr(model, "pretrained_cfg", None) or getattr(model, "default_cfg", None)
    item = config.get("input_size") if isinstance(config, dict) else None
    if item is not None:
        return _floats(tuple(item)), "the model's configuration"
    for name, layer in model.named_modules():
        first_guess = _for_layer(layer, torch)
        if first_guess is not None:
            return first_guess, f"the first layer, {name or 'itself'}: {type(layer).__name__}"
    return None


def _for_layer(layer: Any, torch: Any) -> Callable[[int], Any] | None:
    nn = torch.nn
    match layer:
        case nn.Conv1d():
            return _floats((layer.in_channels, _SIGNAL))
        case nn.Conv2d():
            return _floats((layer.in_channels, _IMAGE, _IMAGE))
        case nn.Conv3d():
            return _floats((layer.in_channels, *_VOLUME))
        case nn.Linear():
            return _floats((layer.in_features,))
        case nn.RNNBase():
            if layer.batch_first:
                return _floats((_TOKENS, layer.input_size))
            return lambda batch: torch.randn(_TOKENS, batch, layer.input_size)
        case nn.Embedding():
            high = layer.num_embeddings
            return lambda batch: torch.randint(high, (batch, _TOKENS))
    return None


def _floats(item: tuple[int, ...]) -> Callable[[int], Any]:
    import torch

    return lambda batch: torch.randn(batch, *item)
