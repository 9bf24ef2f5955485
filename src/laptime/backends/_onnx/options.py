"""What may be asked of a backend that runs model files."""

from __future__ import annotations

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
