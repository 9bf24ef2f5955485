"""What a training loader gives in an epoch: which samples, how they are augmented. Only the loader is run.

    ids      what its samplers asked the dataset for, in order; unknown for an IterableDataset
    hashes   of each sample, as a model gets it
    values   mean of each sample, as a model gets it: its distribution is what other random numbers must keep
    draws    one and the same sample read again and again, by worker and pass: two workers whose random
             numbers are the same give the same row, an epoch that repeats gives the same pass

For `draws` the indices that samplers give are replaced by the first one, in this process: so each worker
reads the same sample with its own random numbers.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from time import perf_counter
from typing import Any

from laptime.tuning.trial import batches
from laptime.tuning.trial.numerics.captured_inputs import seed_everything

BATCHES = 256
"""Read of an epoch, at most."""
SECONDS = 30.0
"""For an epoch, at most."""
MOST = 10_000
"""Samples that are kept."""
COPIES = 8
"""Times that a worker reads the same sample in a pass, at least: a coin gives the same row once in 256."""
PASSES = 2


def epoch(
    loader: Any, *, seed: int, most: int = BATCHES, converted: Callable[[Any], Any] = lambda tensor: tensor
) -> dict[str, Any]:
    """Run a loader for an epoch, or as far as these limits go, and then read one sample many times.

    Args:
        converted: what a model makes of a tensor of a batch before it computes: bytes become numbers, say.

    Returns:
        fields of `messages.LoaderSamples`.
    """
    from torch.utils.data import IterableDataset

    _dismiss(loader)
    iterable = isinstance(loader.dataset, IterableDataset)
    samples: dict[str, Any] = {
        "iterable": iterable,
        "workers": int(loader.num_workers),
        "batch_size": None if loader.batch_size is None else int(loader.batch_size),
        "drop_last": bool(getattr(loader, "drop_last", False)),
        "length": _length(loader),
        "dataset": _length(loader.dataset),
    }
    samples |= _epoch(loader, seed, most, converted)
    keys = samples.pop("_keys")
    samples["draws"] = [] if iterable or not keys or keys[0] is None else _draws(loader, keys[0], seed)
    return samples


def _dismiss(loader: Any) -> None:
    """End the workers of all epochs that have begun, so that nobody reads on beside us; reset visits."""
    import torch
    from torch.utils.data import dataloader

    kind: Any = dataloader._MultiProcessingDataLoaderIter
    for each in gc.get_objects():
        if type(each) is kind:
            each._shutdown_workers()
    if getattr(loader, "_iterator", None) is not None:
        loader._iterator = None
    visits = vars(loader.dataset).get("visits") if hasattr(loader.dataset, "__dict__") else None
    if isinstance(visits, torch.Tensor):  # samples that are seeded by their visit (catalogue/seed_by_sample)
        visits.zero_()


def _epoch(loader: Any, seed: int, most: int, converted: Callable[[Any], Any]) -> dict[str, Any]:
    ids: list[str] = []
    keys: list[Any] = []
    sizes: list[int] = []
    hashes: list[str] = []
    values: list[float] = []
    keys_by_batch: list[list[Any]] = []

    def note(index: Any) -> Any:
        keys_by_batch.append(list(index) if isinstance(index, (list, tuple)) else [index])
        return index

    seed_everything(seed)
    complete, begun = True, perf_counter()
    with _indices(note):
        for batch in _iterated(loader):
            samples = _rows(batches.mapped(batch, converted))
            sizes.append(len(samples) or batches.size(batch) or 1)
            keys += keys_by_batch[len(sizes) - 1] if len(keys_by_batch) >= len(sizes) else []
            for sample in samples[: max(0, MOST - len(hashes))]:
                hashes.append(_hash(sample))
                values.append(_value(sample))
            if len(sizes) >= most or perf_counter() - begun > SECONDS:
                complete = len(sizes) == _length(loader)
                break
    if any(key is not None for key in keys):
        ids = [str(key) for key in keys]
    return {
        "ids": ids[:MOST],
        "sizes": sizes,
        "complete": complete,
        "hashes": hashes,
        "values": values,
        "_keys": keys,
    }


def _draws(loader: Any, first: Any, seed: int) -> list[list[list[str]]]:
    """One sample, read by every worker COPIES times and more, twice over."""
    streams = max(1, int(loader.num_workers))
    passes: list[list[list[str]]] = []

    def same(index: Any) -> Any:
        return [first] * min(len(index), COPIES) if isinstance(index, (list, tuple)) else first

    seed_everything(seed)
    with _indices(same):
        for _ in range(PASSES):
            rows: list[list[str]] = [[] for _ in range(streams)]
            for number, batch in enumerate(_iterated(loader)):
                rows[number % streams] += [_hash(sample) for sample in _rows(batch)]
                if all(len(row) >= COPIES for row in rows):
                    break
            passes.append(rows)
    return passes


def _iterated(loader: Any) -> Iterator[Any]:
    """One pass; its workers are shut down, however it ends."""
    iterator = iter(loader)
    try:
        yield from iterator
    finally:
        shut = getattr(iterator, "_shutdown_workers", None)
        if shut is not None and not getattr(loader, "persistent_workers", False):
            shut()


@contextmanager
def _indices(change: Callable[[Any], Any]) -> Iterator[None]:
    """Every index that a sampler gives in this process goes through `change` on its way to the dataset."""
    from torch.utils.data import dataloader

    kind: Any = dataloader._BaseDataLoaderIter
    original = kind._next_index
    kind._next_index = lambda self: change(original(self))
    try:
        yield
    finally:
        kind._next_index = original


def _length(of: Any) -> int | None:
    try:
        return len(of)
    except (TypeError, NotImplementedError, AttributeError):
        return None


def _rows(batch: Any) -> list[list[Any]]:
    """A batch as its samples: of each, the rows of all tensors that have a row for every sample."""
    count = batches.size(batch)
    tensors = [each.detach().cpu() for _, each in batches.tensors(batch) if each.dim() and len(each) == count]
    return [[tensor[row] for tensor in tensors] for row in range(count)] if tensors else []


def _hash(sample: list[Any]) -> str:
    import torch

    digest = blake2b(digest_size=8)
    for tensor in sample:
        digest.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _value(sample: list[Any]) -> float:
    """Mean of the largest tensor, an image, say; of a sequence of whole numbers the sum: zeros that pad
    it do not count."""
    import torch

    largest = max(sample, key=lambda tensor: tensor.numel())
    is_sequence = largest.dim() == 1 and largest.dtype in (torch.int32, torch.int64)
    return float(largest.double().sum() if is_sequence else largest.double().mean())
