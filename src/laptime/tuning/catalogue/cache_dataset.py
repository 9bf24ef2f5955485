"""Samples that are the same in every epoch are read and transformed once, and kept in memory.

The cache lies in memory that loader workers share. It fills in the first epoch and pays from the second on: a
script that makes one epoch gains nothing, and how many epochs a script makes is not known here. So a trial
fills it before anything is timed, also that of a patched script; the state of later epochs is raced and
measured, and it is only offered if one pass over the data is short enough for that.

Source: PyTorch forum and Plumber (MLSys 2022): caching gains 40 to 50 % over tuned input pipelines; Mohan et
al., "Analyzing and Mitigating Data Stalls in DNN Training", VLDB 2021.
Lies when: the script makes one epoch only, or its dataset changes between epochs without drawing random
numbers (an epoch counter, a file that grows, an augmentation of one sample in a hundred)."""

import random
from time import perf_counter
from typing import Any

from laptime.tuning.catalogue import _inserted, _loader
from laptime.tuning.optimization import LoopProfile, Optimization, Options

FILL = 30.0  # seconds that a trial may take to fill the cache, at most
LEAVES = 32
"""Tensors and numbers in a sample, at most: a list of token ids is many, and is kept badly one by one."""
LOOK, READS = 4.0, 64
"""Seconds and samples for seeing whether reading is the same each time, where it draws random numbers: a
change that comes once in ten reads is then missed once in 800."""


def look(hooks: Any) -> dict[str, Any]:
    """Whether samples can be kept: {"keeps": bool, "draws": bool, "why": str}.

    draws: reading them draws random numbers, though it gives the same each time (a blur of fixed width)."""
    from laptime.tuning.trial.diagnosis.loader_probe import randomness_kept

    if not hooks.loaders:
        return {"keeps": False, "why": "there is no loader"}
    with randomness_kept():
        try:
            return _judge(hooks.loaders[0].dataset)
        except Exception as error:  # anything can come out of a user's dataset
            return {"keeps": False, "why": f"a sample cannot be kept: {error or type(error).__name__}"}


def _judge(dataset: Any) -> dict[str, Any]:
    """Samples from all over the dataset, each read twice with other random numbers."""
    import torch

    from laptime.tuning.trial.diagnosis.loader_probe import same

    until, length, shapes, draws, reads = perf_counter() + LOOK, len(dataset), set(), False, 0
    while reads < READS and perf_counter() < until:
        index = reads * 7919 % length
        before = torch.get_rng_state(), random.getstate()
        first = dataset[index]
        draws = draws or not torch.equal(torch.get_rng_state(), before[0]) or random.getstate() != before[1]
        shapes.add(_shape(first))
        if not same(first, dataset[index]):
            return {"keeps": False, "why": "reading a sample twice gives two results"}
        reads += 1
        if not draws and reads >= 4:
            break
    if draws and reads < READS // 2:
        return {"keeps": False, "why": "reading draws random numbers, too slowly to see what they change"}
    why = "" if len(shapes) == 1 else "samples have several shapes"
    return {"keeps": not why, "draws": draws, "why": why}


def _shape(sample: Any) -> tuple[Any, ...]:
    """Layout, types and shapes of a sample; raises TypeError for what is no tensor, array or number."""
    import torch
    from torch.utils._pytree import tree_flatten

    leaves, layout = tree_flatten(sample)
    if len(leaves) > LEAVES:
        raise TypeError(f"it holds {len(leaves)} values one by one")
    for leaf in leaves:
        kind = type(leaf)
        is_plain = kind in (torch.Tensor, bool, int, float) or kind.__module__.partition(".")[0] == "numpy"
        if not is_plain:
            raise TypeError(f"it holds a {kind.__name__}")
    return str(layout), *((type(leaf).__name__, tuple(getattr(leaf, "shape", ()))) for leaf in leaves)


def numerics(loop_profile: LoopProfile, options: Options) -> str:
    """Return the class: a dataset that draws random numbers moves those that are drawn after it."""
    return "random" if loop_profile.detail("cache_dataset", "draws", False) else "exact"


def why_not(loop_profile: LoopProfile) -> str:
    if loop_profile.details.get("batched_fetch"):
        return "its samples are rows of tensors in memory already"
    length, size = loop_profile.dataset_length, loop_profile.sample_bytes
    if not length or not size or not loop_profile.loader_seconds:
        return "length, size or reading time of the samples is not known"
    if not loop_profile.detail("cache_dataset", "keeps", False):
        why = loop_profile.detail("cache_dataset", "why", "")
        return why or "it is not known whether samples can be kept"
    memory, shm = (loop_profile.memory, _loader.MEMORY), (loop_profile.shm, _loader.SHM)
    for (free, share), name in ((memory, "memory"), (shm, "shared memory")):
        if free is not None and length * size > share * free:
            return f"its samples take {length * size >> 20} MiB: over {share:.0%} of what {name} has free"
    seconds = loop_profile.loader_seconds * length / max(1, loop_profile.batch)
    why = f"one pass over {length} samples takes {seconds:.0f} s, longer than a trial can wait"
    return why if seconds > FILL else ""


def apply(loop: Any, options: Options) -> None:
    """Around every map-style dataset; the one that training reads is filled when its first batch has come.
    patched in options: the script makes its caches itself, they are filled alone."""
    wrapped: list[Any] = []

    def wrap(dataset: Any) -> Any:
        from laptime.tuning.catalogue._inserted.cached_dataset import CachedDataset

        if type(dataset).__name__ == CachedDataset.__name__:  # or that of a patched script
            if dataset not in wrapped and not bool(dataset.is_stored.all()):
                wrapped.append(dataset)
            return dataset
        if "patched" in options:
            return dataset
        try:
            wrapped.append(CachedDataset(dataset))
        except (IndexError, KeyError, RuntimeError, TypeError, ValueError):
            return dataset  # an evaluation set of texts, say: it stays as it is
        return wrapped[-1]

    def fill(batch: Any) -> Any:
        until = perf_counter() + FILL
        for dataset in [cached for cached in wrapped if bool(cached.is_stored.any())]:
            wrapped.remove(dataset)
            for index in range(len(dataset)):
                if perf_counter() > until:
                    break
                if not dataset.is_stored[index]:
                    dataset[index]
        return batch

    loop.dataset(wrap)
    loop.batch(fill)


def edit(script: Any, options: Options) -> None:
    _inserted.define(script, "cached_dataset")
    script.wrap_argument("loader", "dataset", "CachedDataset({})")


OPTIMIZATION = Optimization(
    title="samples read once and kept in shared memory",
    numerics="exact",
    finer=numerics,
    # The wait for batches, from the second epoch on; a script of one epoch gains nothing.
    saves={"data": 1.0},
    needs=frozenset({"loader", "map_dataset"}),
    prior=0.8,
    fills=True,
    why_not=why_not,
    look=look,
    example={"keeps": True, "draws": False, "why": ""},
    apply=apply,
    edit=edit,
)
