"""Weights of large linear layers in int8, a scale for each row; products and activations stay as they are.

A product of few rows waits for its weights: a quarter of the bytes is what it saves.
Lies when: calls have many items; such products are bound by arithmetic, and turning weights back costs time.
Source: docs.pytorch.org/ao, Int8WeightOnlyConfig.
"""

from typing import Any

from laptime.tuning.inference.catalogue import _torch_only
from laptime.tuning.inference.draft import Draft, Refused
from laptime.tuning.inference.forms.exported import first_words
from laptime.tuning.optimization import Options

TITLE = "weights of linear layers in int8"
NUMERICS = "precision"
SAVES = 0.7
PRIOR = 0.3
NEEDS = _torch_only.NEEDS | {"cuda", "linear"}
GIVES = frozenset({"half_precision"})
PACKAGES = ("torchao",)
LARGE = 1 << 18
"""Weights of a layer from which on it is changed: 1 MiB in float32; less lies in the caches anyway."""


def apply(draft: Draft, options: Options) -> None:
    """The module with these weights, which torch.export sees as plain tensors.

    Raises:
        Refused: it has no large linear layer, or torchao cannot quantise it.
    """
    from torchao.quantization import Int8WeightOnlyConfig

    quantise(draft, Int8WeightOnlyConfig())


def quantise(draft: Draft, config: Any) -> None:
    """Large linear layers of a draft's module by a configuration of torchao.

    Raises:
        Refused: there are none, or it cannot be done.
    """
    from torchao.quantization import quantize_
    from torchao.utils import unwrap_tensor_subclass

    if not any(is_large(each) for each in draft.module.modules()):
        raise Refused(f"it has no linear layer of {LARGE} weights or more")
    try:
        quantize_(draft.module, config, filter_fn=lambda module, name: is_large(module))
        unwrap_tensor_subclass(draft.module)
    except Exception as error:
        raise Refused(f"torchao cannot quantise it: {first_words(error)}") from error
    draft.settings["precision"] = "int8"


def is_large(module: Any) -> bool:
    """Whether a module is a linear layer that is worth it."""
    import torch

    return isinstance(module, torch.nn.Linear) and module.weight.numel() >= LARGE
