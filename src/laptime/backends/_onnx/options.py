"""What may be asked of a backend that runs model files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from laptime.kit.errors import UsageError
from laptime.records.plan import Variant


def refuse_torch_options(variant: Variant, backend: str, *, why: str) -> None:
    """Options that only PyTorch has.

    Raises:
        UsageError: the variant asks for one; `why` is what this backend has instead.
    """
    options = {
        "--compile": bool(variant.compile),
        "--channels-last": variant.channels_last,
        "--train": bool(variant.train),
    }
    refused = [word for word, is_set in options.items() if is_set]
    if refused:
        raise UsageError(
            f"{backend} cannot do {' '.join(refused)}", why=why, next="--backend torch, or leave it out"
        )


def listed(inputs: Any) -> Any:
    """Inputs given in memory, in the model's order: one array becomes a list, a mapping its values."""
    if isinstance(inputs, np.ndarray):
        return [inputs]
    return list(inputs.values()) if isinstance(inputs, Mapping) else inputs
