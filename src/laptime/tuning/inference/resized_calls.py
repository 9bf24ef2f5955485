"""Recorded calls with another number of items: cut, or repeated."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from laptime.measure.recorded_calls import Array, RecordedCall, RecordedCalls

MOST_COMPARED = 3
"""Calls that are compared at a batch size which is chosen."""


def save(recorded: RecordedCalls, varies: Sequence[bool], *, own: int, batch: int, path: Path) -> None:
    """Write the first calls of the session's own batch size with so many items, without outputs.

    Args:
        varies: by input, whether its first dimension is the batch. own: items of the session's calls.
    """
    calls = [call for call in recorded.calls if call.batch == own][:MOST_COMPARED]
    RecordedCalls([RecordedCall(batch, _resized(call.inputs, varies, batch), []) for call in calls]).save(
        path
    )


def _resized(inputs: Sequence[Array], varies: Sequence[bool], batch: int) -> list[Array]:
    return [
        array[np.arange(batch) % len(array)] if leads else array
        for array, leads in zip(inputs, varies, strict=True)
    ]
