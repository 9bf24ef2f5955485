"""Inputs of training steps, kept by one process and fed to another: batches, state of models and optimizers.

A batch is kept as the list of its tensors. It is fed inside a batch that the loader itself has just made,
whose tensors are replaced: so its type, whatever class it is, needs no pickling.

What a training loader gives in an epoch: which samples, how they are augmented. Only the loader is run.

    ids      what its samplers asked the dataset for, in order; unknown for an IterableDataset
    hashes   of each sample, as a model gets it
    values   mean of each sample, as a model gets it: its distribution is what other random numbers must keep
    draws    one and the same sample read again and again, by worker and pass: two workers whose random
             numbers are the same give the same row, an epoch that repeats gives the same pass

For `draws` the indices that samplers give are replaced by the first one, in this process: so each worker
reads the same sample with its own random numbers."""

import gc
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from time import perf_counter
from typing import Any

from laptime.tuning.trial import batches
from laptime.tuning.trial.numerics import tensor_summary


class DoesNotFit(Exception):
    """The captured inputs do not fit this loop; the text says what differs."""


def seed_everything(seed: int) -> None:
    """SeedShift of torch (all devices), of `random`, and of numpy if it is imported."""
    import torch

    torch.manual_seed(seed)
    random.seed(seed)
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed % (1 << 32))


def tensors_of(batch: Any, most: int | None = None) -> list[Any]:
    """Copies of a batch's tensors, on the CPU; of those with a row a sample the first `most` rows."""
    count = batches.size(batch)
    tensors = [tensor for _, tensor in batches.tensors(batch)]
    cut = [
        each[:most] if most is not None and each.dim() and len(each) == count else each for each in tensors
    ]
    return [each.detach().cpu().clone() for each in cut]


def fill(batch: Any, stored: list[Any]) -> Any:
    """The batch with captured tensors in it: on its devices, in its memory formats, pinned if it is.
    Raises DoesNotFit: there are more or fewer tensors, or other types."""
    import torch

    if [tensor.dtype for _, tensor in batches.tensors(batch)] != [tensor.dtype for tensor in stored]:
        raise DoesNotFit("the loader gives tensors of other number or type than those that were captured")
    remaining = iter(stored)

    def swap(tensor: Any) -> Any:
        captured = next(remaining)
        if tensor.shape != captured.shape:  # the last batch of an epoch, longer sentences
            return captured.to(tensor.device, copy=True)
        copy = torch.empty_like(tensor, memory_format=torch.preserve_format).copy_(captured)
        return copy.pin_memory() if tensor.is_pinned() else copy

    return batches.map_tensors(batch, swap)


def write(path: str, content: dict[str, Any]) -> None:
    """torch.save in one move: a reader never sees half of it."""
    import torch

    draft = f"{path}.tmp"
    torch.save(content, draft)
    Path(draft).replace(path)


def read(path: str) -> dict[str, Any]:
    """The content of a file of `write`: plain values and tensors only, mapped into memory and not copied.
    Raises OSError, RuntimeError, pickle.UnpicklingError: it is no such file."""
    import torch

    content: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    return content


def forget_histories(optimizers: list[Any]) -> None:
    """Let optimizers begin anew that keep lists of earlier steps, as LBFGS does."""
    for optimizer in optimizers:
        values = (value for state in optimizer.state.values() for value in dict(state).values())
        if any(isinstance(value, list) for value in values):
            optimizer.state.clear()


def put_back(
    stored: dict[str, Any], parameters: dict[str, Any], buffers: dict[str, Any], optimizers: list[Any]
) -> list[str]:
    """Write captured values into these tensors, in place: memory formats and captured graphs stay valid.

    Learning rates and switches of the optimizers are left as the script has set them.

    Returns names that have no partner, or one of another shape."""
    import torch

    unmatched: list[str] = []
    states, without = stored["optimizer"], set(stored["optimizer"])
    with torch.no_grad():
        for group, tensors in (("parameters", parameters), ("buffers", buffers)):
            for name in sorted(set(tensors) | set(stored[group])):
                tensor, captured = tensors.get(name), stored[group].get(name)
                if tensor is None or captured is None or tensor.shape != captured.shape:
                    unmatched.append(name)
                else:
                    tensor.copy_(captured)
        for name, state, key, value in tensor_summary.state_items(optimizers, parameters):
            if name in without and isinstance(value, torch.Tensor) and value.shape == states[name].shape:
                value.copy_(states[name])
                without.discard(name)
            elif name in without and tensor_summary.is_number(value):
                state[key] = type(value)(states[name].item())
                without.discard(name)
    return unmatched + sorted(without)


# Samples of loaders.


BATCHES = 256  # read of an epoch, at most
SECONDS = 30.0  # for an epoch, at most
MOST = 10_000  # samples that are kept
COPIES = 8
"""Times that a worker reads the same sample in a pass, at least: a coin gives the same row once in 256."""
PASSES = 2


def epoch(
    loader: Any, *, seed: int, most: int = BATCHES, converted: Callable[[Any], Any] = lambda tensor: tensor
) -> dict[str, Any]:
    """Run a loader for an epoch, or as far as these limits go, and then read one sample many times. Returns
    fields of `messages.LoaderSamples`. converted: what a model makes of a tensor of a batch before it
    computes: bytes become numbers, say."""
    from torch.utils.data import IterableDataset

    _dismiss(loader)
    iterable = isinstance(loader.dataset, IterableDataset)
    samples = {
        "iterable": iterable,
        "workers": int(loader.num_workers),
        "batch_size": None if loader.batch_size is None else int(loader.batch_size),
        "drop_last": bool(getattr(loader, "drop_last", False)),
        "length": _length(loader),
        "dataset": _length(loader.dataset),
    }
    read, keys = _epoch(loader, seed, most, converted)
    draws = [] if iterable or not keys or keys[0] is None else _draws(loader, keys[0], seed)
    return {**samples, **read, "draws": draws}


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


def _epoch(
    loader: Any, seed: int, most: int, converted: Callable[[Any], Any]
) -> tuple[dict[str, Any], list[Any]]:
    """Return the samples of a pass, and their keys."""
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
        for batch in _iterate(loader):
            samples = _rows(batches.map_tensors(batch, converted))
            sizes.append(len(samples) or batches.size(batch) or 1)
            keys += keys_by_batch[len(sizes) - 1] if len(keys_by_batch) >= len(sizes) else []
            for sample in samples[: max(0, MOST - len(hashes))]:
                hashes.append(_hash(sample))
                values.append(_value(sample))
            if len(sizes) >= most or perf_counter() - begun > SECONDS:
                complete = len(sizes) == _length(loader)
                break
    ids = [str(key) for key in keys[:MOST]] if any(key is not None for key in keys) else []
    return {"ids": ids, "sizes": sizes, "complete": complete, "hashes": hashes, "values": values}, keys


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
            for number, batch in enumerate(_iterate(loader)):
                rows[number % streams] += [_hash(sample) for sample in _rows(batch)]
                if all(len(row) >= COPIES for row in rows):
                    break
            passes.append(rows)
    return passes


def _iterate(loader: Any) -> Iterator[Any]:
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
