"""More loader workers: batches are read and augmented in other processes while the step computes.

As many at most as the script has cores, and as memory and /dev/shm hold batches for; a search finds the best
number.

Source: PyTorch documentation of torch.utils.data, "Single- and Multi-process Data Loading"; PyTorch
Performance Tuning Guide, "Enable asynchronous data loading and augmentation".
Lies when: the step computes on the same cores: then workers take from it what they give. Every worker draws
its own random numbers, so augmentation differs (class `random`) unless samples are seeded by their index."""

from math import ceil
from typing import Any

from laptime.tuning.catalogue import _bounds, _loader
from laptime.tuning.optimization import LoopProfile, Optimization, Options

WORKER = 300 << 20
"""Bytes that a forked worker comes to own, besides its batches: measured with torchvision transforms, rounded
up."""


def numerics(loop_profile: LoopProfile, options: Options) -> str:
    """Batches are the same, bit by bit, where reading draws no random numbers or they go by sample."""
    same = "random_transforms" not in loop_profile.facts or "seed_by_sample" in loop_profile.facts
    return "exact" if same else "random"


def propose(loop_profile: LoopProfile) -> list[Options]:
    """1 to what the machine holds, the number that the step needs first; not what the script has already."""
    present = _loader.workers(loop_profile)
    values = [value for value in _steps(_cap(loop_profile)) if value != present]
    enough = ceil((loop_profile.loader_seconds or 0.0) / max(_rest(loop_profile), 1e-6))
    wanted = min(max(1, enough), _cap(loop_profile))
    return [{"value": value} for value in sorted(values, key=lambda value: (abs(value - wanted), value))]


def bound(loop_profile: LoopProfile, options: Options) -> float:
    """The wait for batches, less what so many workers still leave of it."""
    batch = (loop_profile.loader_seconds or 0.0) / max(int(options["value"]), 1)
    left = max(0.0, batch - _rest(loop_profile))
    return _bounds.within(loop_profile, loop_profile.share("data") - left)


def why_not(loop_profile: LoopProfile) -> str:
    if _cap(loop_profile) < 1:
        return "memory or /dev/shm has no room for the batches of a worker"
    return "" if propose(loop_profile) else "the script has as many as the machine holds already"


def apply(loop: Any, options: Options) -> None:
    """num_workers of every map-style DataLoader."""
    number = int(options["value"])

    def rewrite(call: Any) -> None:
        import torch

        dataset = call.arguments.get("dataset")
        if dataset is not None and not isinstance(dataset, torch.utils.data.IterableDataset):
            call.arguments["num_workers"] = number

    loop.loader(rewrite)


def _rest(loop_profile: LoopProfile) -> float:
    """Seconds of a step without the wait for its batch."""
    return max(0.0, loop_profile.step - loop_profile.share("data"))


def _cap(loop_profile: LoopProfile) -> int:
    """Workers that cores, memory and /dev/shm hold; 0 if not even one fits."""
    number = loop_profile.cpus
    if loop_profile.memory is not None:
        number = min(number, int(2 * _loader.MEMORY * loop_profile.memory // WORKER))
    prefetch = _loader.prefetch(loop_profile)
    return next((each for each in range(number, 0, -1) if _loader.fits(loop_profile, each, prefetch)), 0)


def _steps(cap: int) -> list[int]:
    """1, 2, 3, 4, then half as much again each time, and the cap itself."""
    values = [1]
    while values[-1] < cap:
        values.append(min(cap, values[-1] + (values[-1] // 2 if values[-1] >= 4 else 1)))
    return values if cap else []


OPTIMIZATION = Optimization(
    title="more loader workers",
    numerics="random",
    finer=numerics,
    saves=bound,
    needs=frozenset({"loader", "map_dataset"}),
    gives=frozenset({"workers"}),
    prior=0.7,
    propose=propose,
    why_not=why_not,
    switch=r"((data_?)?loader_)?(num_?|n_?)?(data_?)?(loader_)?workers?|n_cpu|j",
    apply=apply,
    edit=lambda script, options: _loader.set_argument(script, "num_workers", str(int(options["value"]))),
)
