"""Running statistics of untrained Keras models, filled from one batch as decision 0006 does it for PyTorch.

With the initial ones (mean 0, variance 1) activations grow or shrink with depth, until float16 overflows or
CPUs slow down on denormals, which trained weights never do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from laptime.backends.tensorflow import structure


def layers(model: Any) -> Iterator[Any]:
    """All layers of a model, those inside nested models too; the model itself is none of them."""
    for layer in getattr(model, "layers", []):
        yield layer
        yield from layers(layer)


def settle(model: Any, make: Callable[[int], Any]) -> bool:
    """Fill running statistics from one batch of 2; False when the model keeps none."""
    norms = [layer for layer in layers(model) if type(layer).__name__ == "BatchNormalization"]
    if not norms:
        return False
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = 0.0
    try:
        args, kwargs = structure.passed(make(2), is_keras=True)
        model(*args, training=True, **kwargs)
    finally:
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum
    return True
