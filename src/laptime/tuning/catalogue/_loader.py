"""What the changes of loaders share: which calls they touch, how much waiting there is to save, the edit."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Any

from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.optimization import Options

PREFETCH = 2
"""Batches that each worker holds ready by torch's default."""
MEMORY = 0.25
"""Share of the free memory that a change of the loader may take."""
SHM = 0.5
"""Share of free /dev/shm that batches in flight may take; the rest is for the script's own."""


def within(loop_profile: LoopProfile, seconds: float) -> float:
    """A bound that no step can be short of, and that is never negative."""
    return min(max(0.0, seconds), loop_profile.step)


def workers(loop_profile: LoopProfile) -> int:
    """Workers of the training loader as it is."""
    return int(loop_profile.loader.get("num_workers") or 0)


def rest(loop_profile: LoopProfile) -> float:
    """Seconds of a step without the wait for its batch."""
    return max(0.0, loop_profile.step - loop_profile.share("data"))


def wait(loop_profile: LoopProfile, number: int) -> float:
    """Seconds of a step that still wait for a batch when `number` workers share the work and nothing
    disturbs them."""
    if loop_profile.loader_seconds is None:
        return 0.0
    return max(0.0, loop_profile.loader_seconds / max(number, 1) - rest(loop_profile))


def enough(loop_profile: LoopProfile) -> int:
    """Workers that make batches as fast as the rest of a step uses them up."""
    if not loop_profile.loader_seconds:
        return 1
    return max(1, ceil(loop_profile.loader_seconds / max(rest(loop_profile), 1e-6)))


def in_flight(loop_profile: LoopProfile, number: int, prefetch: int) -> int:
    """Bytes of the batches that `number` workers hold ready."""
    return number * prefetch * loop_profile.batch_bytes


def fits(loop_profile: LoopProfile, number: int, prefetch: int) -> bool:
    """Whether these batches leave memory and /dev/shm to others."""
    size = in_flight(loop_profile, number, prefetch)
    if loop_profile.memory is not None and size > MEMORY * loop_profile.memory:
        return False
    return loop_profile.shm is None or size <= SHM * loop_profile.shm


def is_map_style(call: Any) -> bool:
    """Whether a DataLoader call has a dataset that is asked by index."""
    import torch

    dataset = call.arguments.get("dataset")
    return dataset is not None and not isinstance(dataset, torch.utils.data.IterableDataset)


def with_workers(change: Callable[[Any], None]) -> Callable[[Any], None]:
    """A rewrite of the calls that have workers; torch raises where these arguments come without any."""

    def rewrite(call: Any) -> None:
        if int(call.arguments.get("num_workers") or 0) > 0:
            change(call)

    return rewrite


def set_everywhere(script: Any, argument: str, value: str) -> None:
    """An argument of the training loader, or of the TrainingArguments that make it."""
    if script.has_site("hf_arguments") and not script.has_site("loader"):
        script.set_arguments("hf_arguments", **{f"dataloader_{argument}": value})
    else:
        script.set_arguments("loader", **{argument: value})


def nearest(values: list[int], wanted: int) -> list[Options]:
    """Options `{"value": n}`, the wanted one first, then its neighbours; of two equally near the smaller."""
    return [{"value": value} for value in sorted(values, key=lambda value: (abs(value - wanted), value))]
