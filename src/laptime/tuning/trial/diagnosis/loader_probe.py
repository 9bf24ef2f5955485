"""How long a training loader takes for a batch in one process, and what its dataset does.

The script's own loader and its random numbers are left as they are: samples are read by torch's own fetcher,
from the same dataset with the same collate function, and every random state is put back.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any

from laptime.tuning.trial.batches import nbytes

BATCHES = 3
"""Batches that are timed."""
SECONDS = 4.0
"""At most, for everything that is asked of one loader."""
REREADS = 8
"""Samples that are read again: one that is flipped every other time stays unseen once in 256."""


@contextmanager
def randomness_kept() -> Iterator[None]:
    """Random states of Python, numpy and torch are afterwards what they were before."""
    import torch

    numpy: Any = sys.modules.get("numpy.random")
    states = random.getstate(), torch.get_rng_state(), numpy.get_state() if numpy else None
    try:
        yield
    finally:
        random.setstate(states[0])
        torch.set_rng_state(states[1])
        if numpy:
            numpy.set_state(states[2])


def _randomness() -> tuple[Any, ...]:
    import torch

    numpy: Any = sys.modules.get("numpy.random")
    drawn = numpy.get_state(legacy=False) if numpy else None
    state = None if drawn is None else (drawn["state"]["key"].tobytes(), drawn["state"]["pos"])
    return random.getstate(), torch.get_rng_state().numpy().tobytes(), state


def probe(loader: Any) -> tuple[dict[str, Any], list[str]]:
    """Fields of a LoopProfile that a loader tells: loader_seconds, dataset_length, sample_bytes, and under
    "details" sample_seconds, fetch_by_stage, read_seconds; under "random" whether reading is random.

    The second value says what could not be found out, and why. Runs the user's dataset; never raises for it.
    """
    found: dict[str, Any] = {"details": {}}
    notes: list[str] = []
    with randomness_kept():
        for ask in (_length, _samples, _batches, _stages):
            try:
                ask(loader, found)
            except Exception as error:  # anything can come out of a user's dataset
                what = f"{type(error).__name__}: {error}".strip()[:200]
                notes.append(f"the dataset could not be asked ({ask.__name__.strip('_')}): {what}")
    return found, notes


def _is_iterable(loader: Any) -> bool:
    from torch.utils.data import IterableDataset

    return isinstance(loader.dataset, IterableDataset)


def _length(loader: Any, found: dict[str, Any]) -> None:
    try:
        found["dataset_length"] = len(loader.dataset)
    except (TypeError, NotImplementedError):
        found["dataset_length"] = None


def _keys(loader: Any, count: int) -> list[Any]:
    """Keys of samples: torch's own samplers give numbers below the length, others are asked."""
    from torch.utils.data import sampler as samplers
    from torch.utils.data.distributed import DistributedSampler

    known = (samplers.SequentialSampler, samplers.RandomSampler, DistributedSampler)
    if isinstance(getattr(loader, "sampler", None), known):
        length = len(loader.dataset)
        return random.Random(0).choices(range(length), k=count) if length else []  # noqa: S311, no secret
    own = getattr(loader, "batch_sampler", None)
    keys: list[Any] = []
    for each in own if own is not None else loader.sampler:
        keys += each if own is not None else [each]
        if len(keys) >= count:
            break
    return keys[:count]


def _samples(loader: Any, found: dict[str, Any]) -> None:
    """Time and size of single samples, and whether one that is read again is the same."""
    if _is_iterable(loader):
        return
    dataset, begun, seconds = loader.dataset, perf_counter(), []
    is_random = False
    for key in _keys(loader, REREADS):
        before, start = _randomness(), perf_counter()
        first = dataset[key]
        seconds.append(perf_counter() - start)
        is_random = is_random or _randomness() != before
        found.setdefault("sample_bytes", sample_bytes(first))
        if not is_random:
            _draw()
            is_random = not same(first, dataset[key])
        if perf_counter() - begun > SECONDS / 2:
            break
    if seconds:
        found["random"] = is_random
        found["details"]["sample_seconds"] = sorted(seconds)[len(seconds) // 2]


def _draw() -> None:
    """Random states go on, as they do between two epochs."""
    import torch

    random.random()  # noqa: S311
    torch.rand(1)
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].random()


def _batches(loader: Any, found: dict[str, Any]) -> None:
    """Seconds of a batch: read, transformed and collated by this process alone."""
    from torch.utils.data._utils import fetch

    fetchers: Any = fetch
    is_iterable, is_batched = _is_iterable(loader), loader._auto_collation
    count = _batch_size(loader) if is_batched else 1
    each = found["details"].get("sample_seconds", 0.0)
    if each * count > SECONDS:
        found["loader_seconds"] = each * count
        return
    kind = fetchers._IterableDatasetFetcher if is_iterable else fetchers._MapDatasetFetcher
    fetcher = kind(loader.dataset, is_batched, loader.collate_fn, bool(getattr(loader, "drop_last", False)))
    keys = [None] * count * BATCHES if is_iterable else _keys(loader, count * BATCHES)
    seconds: list[float] = []
    for first in range(0, len(keys), max(count, 1)):
        wanted = keys[first : first + count]
        start = perf_counter()
        try:
            fetcher.fetch(wanted if is_batched else wanted[0])
        except StopIteration:
            break
        seconds.append(perf_counter() - start)
        if sum(seconds) > SECONDS / 2:
            break
    if seconds:
        found["loader_seconds"] = sorted(seconds)[len(seconds) // 2]


def _batch_size(loader: Any) -> int:
    own = loader.batch_size
    return int(own) if own else len(next(iter(loader.batch_sampler)))


def compose_of(dataset: Any) -> Any:
    """The Compose that a dataset, or the one inside a Subset, keeps as `transform`, or by any other name when
    it is the only one; None without."""
    for _ in range(4):
        for name in ("transform", "transforms"):
            found = getattr(dataset, name, None)
            inner = getattr(found, "transform", found) if name == "transforms" else found
            stages = getattr(inner, "transforms", None)
            if isinstance(stages, list) and stages and callable(inner):
                return inner
        own = [each for each in getattr(dataset, "__dict__", {}).values() if _is_compose(each)]
        if len(own) == 1:
            return own[0]
        dataset = getattr(dataset, "dataset", None)
        if dataset is None:
            return None
    return None


def _is_compose(value: Any) -> bool:
    return type(value).__name__ == "Compose" and isinstance(getattr(value, "transforms", None), list)


class _Timed:
    """A stage of a Compose, with a clock."""

    def __init__(self, stage: Callable[..., Any]) -> None:
        self.stage, self.seconds, self.whole = stage, 0.0, 0.0
        self.is_random = False
        self.taken = self.gave = ""

    def __call__(self, *args: Any) -> Any:
        begun, before, start = perf_counter(), _randomness(), perf_counter()
        made = self.stage(*args)
        self.seconds += perf_counter() - start
        self.is_random = self.is_random or _randomness() != before
        self.taken, self.gave = _kind(args[0] if args else None), _kind(made)
        self.whole += perf_counter() - begun
        return made


def _stages(loader: Any, found: dict[str, Any]) -> None:
    """Seconds of a sample by stage of its Compose; reading and decoding is what is left."""
    compose = None if _is_iterable(loader) else compose_of(loader.dataset)
    if compose is None:
        return
    own, timed = compose.transforms, [_Timed(each) for each in compose.transforms]
    compose.transforms = timed
    begun, count, whole = perf_counter(), 0, 0.0
    try:
        for key in _keys(loader, REREADS):
            start = perf_counter()
            loader.dataset[key]
            whole += perf_counter() - start
            count += 1
            if perf_counter() - begun > SECONDS / 4:
                break
    finally:
        compose.transforms = own
    if not count:
        return
    found["details"]["fetch_by_stage"] = [
        {
            "name": type(each.stage).__name__,
            "module": type(each.stage).__module__,
            "seconds": each.seconds / count,
            "random": each.is_random,
            "in": each.taken,
            "out": each.gave,
        }
        for each in timed
    ]
    found["details"]["read_seconds"] = max(0.0, whole - sum(each.whole for each in timed)) / count


def _kind(value: Any) -> str:
    """What goes between two stages: `Image uint8`, `Tensor float32`."""
    kind = getattr(value, "dtype", None)
    return f"{type(value).__name__} {str(kind).removeprefix('torch.') if kind is not None else ''}".strip()


def same(one: Any, two: Any) -> bool:
    """Whether two samples are equal, element by element."""
    if type(one) is not type(two):
        return False
    if isinstance(one, dict):
        return one.keys() == two.keys() and all(same(one[key], two[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(two) and all(same(a, b) for a, b in zip(one, two, strict=True))
    if hasattr(one, "shape") and hasattr(one, "dtype"):
        return bool(one.shape == two.shape and ((one == two) | (one != one)).all())
    if hasattr(one, "tobytes"):  # an image
        return bool(one.tobytes() == two.tobytes())
    try:
        return bool(one == two)
    except (TypeError, ValueError, RuntimeError):
        return True


def sample_bytes(sample: Any) -> int:
    """Bytes of tensors, arrays, images and texts in one sample."""
    if isinstance(sample, dict):
        return sum(sample_bytes(each) for each in sample.values())
    if isinstance(sample, (list, tuple)):
        return sum(sample_bytes(each) for each in sample)
    if isinstance(sample, (bytes, bytearray, str)):
        return len(sample)
    if hasattr(sample, "element_size"):
        return nbytes(sample)
    if hasattr(sample, "nbytes"):
        return int(sample.nbytes)
    if hasattr(sample, "getbands"):
        return int(sample.size[0] * sample.size[1] * len(sample.getbands()))
    return 8
