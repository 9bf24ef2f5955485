"""How long a training loader takes for a batch in one process, and what its dataset does.

The script's own loader and its random numbers are left as they are: samples are read by torch's own fetcher,
from the same dataset with the same collate function, and every random state is put back."""

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from statistics import median_high
from time import perf_counter
from typing import Any

from laptime.tuning.trial.batches import nbytes
from laptime.tuning.trial.state_snapshot import random_states

BATCHES = 3  # batches that are timed
SECONDS = 4.0  # at most, for everything that is read from one loader
REREADS = 8  # samples that are read again: one that is flipped every other time stays unseen once in 256


@contextmanager
def randomness_kept() -> Iterator[None]:
    """Random states of Python, numpy and torch are afterwards what they were before."""
    restores = random_states()
    try:
        yield
    finally:
        for restore in restores:
            restore()


def _random_state() -> tuple[Any, ...]:
    import torch

    numpy: Any = sys.modules.get("numpy.random")
    drawn = numpy.get_state(legacy=False) if numpy else None
    state = None if drawn is None else (drawn["state"]["key"].tobytes(), drawn["state"]["pos"])
    return random.getstate(), torch.get_rng_state().numpy().tobytes(), state


def probe(loader: Any) -> tuple[dict[str, Any], list[str]]:
    """Fields of a LoopProfile: loader_seconds, dataset_length, sample_bytes, and details["fetch_by_stage"];
    and under "random" whether reading a sample is random.

    The second value says what could not be found out, and why. Runs the user's dataset; never raises for it.
    """
    values: dict[str, Any] = {"details": {}}
    notes: list[str] = []
    with randomness_kept():
        for find in (_length, _samples, _batches, _stages):
            try:
                find(loader, values)
            except Exception as error:  # anything can come out of a user's dataset
                what = f"{type(error).__name__}: {error}".strip()[:200]
                notes.append(f"the dataset could not be read ({find.__name__.strip('_')}): {what}")
    values.pop("sample_seconds", None)
    return values, notes


def _is_iterable(loader: Any) -> bool:
    from torch.utils.data import IterableDataset

    return isinstance(loader.dataset, IterableDataset)


def _length(loader: Any, values: dict[str, Any]) -> None:
    values["dataset_length"] = None
    with suppress(TypeError, NotImplementedError):
        values["dataset_length"] = len(loader.dataset)


def _keys(loader: Any, count: int) -> list[Any]:
    """Keys of samples: torch's own samplers give numbers below the length, others are run."""
    from torch.utils.data import sampler as samplers
    from torch.utils.data.distributed import DistributedSampler

    torchs = (samplers.SequentialSampler, samplers.RandomSampler, DistributedSampler)
    if isinstance(getattr(loader, "sampler", None), torchs):
        length = len(loader.dataset)
        return random.Random(0).choices(range(length), k=count) if length else []  # noqa: S311, no secret
    batch_sampler = getattr(loader, "batch_sampler", None)
    keys: list[Any] = []
    for key in loader.sampler if batch_sampler is None else batch_sampler:
        keys += [key] if batch_sampler is None else key
        if len(keys) >= count:
            break
    return keys[:count]


def _samples(loader: Any, values: dict[str, Any]) -> None:
    """Time and size of single samples, and whether one that is read again is the same."""
    import torch

    if _is_iterable(loader):
        return
    dataset, begun, seconds = loader.dataset, perf_counter(), []
    is_random = False
    for key in _keys(loader, REREADS):
        before, start = _random_state(), perf_counter()
        sample = dataset[key]
        seconds.append(perf_counter() - start)
        is_random = is_random or _random_state() != before
        values.setdefault("sample_bytes", sample_bytes(sample))
        if not is_random:  # again, with random states that went on, as they do between two epochs
            random.random()  # noqa: S311
            torch.rand(1)
            if "numpy.random" in sys.modules:
                sys.modules["numpy.random"].random()
            is_random = not same(sample, dataset[key])
        if perf_counter() - begun > SECONDS / 2:
            break
    if seconds:
        values["random"] = is_random
        values["sample_seconds"] = median_high(seconds)


def _batches(loader: Any, values: dict[str, Any]) -> None:
    """Seconds of a batch: read, transformed and collated by this process alone."""
    from torch.utils.data._utils import fetch

    fetchers: Any = fetch
    is_iterable, is_batched = _is_iterable(loader), loader._auto_collation
    count = 1
    if is_batched:
        count = int(loader.batch_size) if loader.batch_size else len(next(iter(loader.batch_sampler)))
    expected = values.get("sample_seconds", 0.0) * count
    if expected > SECONDS:
        values["loader_seconds"] = expected
        return
    kind = fetchers._IterableDatasetFetcher if is_iterable else fetchers._MapDatasetFetcher
    fetcher = kind(loader.dataset, is_batched, loader.collate_fn, bool(getattr(loader, "drop_last", False)))
    keys = [None] * count * BATCHES if is_iterable else _keys(loader, count * BATCHES)
    seconds: list[float] = []
    for first in range(0, len(keys), max(count, 1)):
        batch_keys = keys[first : first + count]
        start = perf_counter()
        try:
            fetcher.fetch(batch_keys if is_batched else batch_keys[0])
        except StopIteration:
            break
        seconds.append(perf_counter() - start)
        if sum(seconds) > SECONDS / 2:
            break
    if seconds:
        values["loader_seconds"] = median_high(seconds)


def compose_of(dataset: Any) -> Any:
    """The Compose that a dataset, or the one inside a Subset, has as `transform`, or by any other name when
    it is the only one; None without."""
    for _ in range(4):
        for name in ("transform", "transforms"):
            transform = getattr(dataset, name, None)
            inner = getattr(transform, "transform", transform) if name == "transforms" else transform
            stages = getattr(inner, "transforms", None)
            if isinstance(stages, list) and stages and callable(inner):
                return inner
        own = [each for each in getattr(dataset, "__dict__", {}).values() if type(each).__name__ == "Compose"]
        composes = [each for each in own if isinstance(getattr(each, "transforms", None), list)]
        if len(composes) == 1:
            return composes[0]
        dataset = getattr(dataset, "dataset", None)
    return None


class _TimedStage:
    """A stage of a Compose, with a clock."""

    def __init__(self, stage: Callable[..., Any]) -> None:
        self.stage, self.seconds = stage, 0.0

    def __call__(self, *args: Any) -> Any:
        start = perf_counter()
        result = self.stage(*args)
        self.seconds += perf_counter() - start
        return result


def _stages(loader: Any, values: dict[str, Any]) -> None:
    """Seconds of a sample by stage of its Compose."""
    compose = None if _is_iterable(loader) else compose_of(loader.dataset)
    if compose is None:
        return
    stages, timed = compose.transforms, [_TimedStage(stage) for stage in compose.transforms]
    compose.transforms = timed
    begun, count = perf_counter(), 0
    try:
        for key in _keys(loader, REREADS):
            loader.dataset[key]
            count += 1
            if perf_counter() - begun > SECONDS / 4:
                break
    finally:
        compose.transforms = stages
    if count:
        stages = [{"name": type(each.stage).__name__, "seconds": each.seconds / count} for each in timed]
        values["details"]["fetch_by_stage"] = stages


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
    if isinstance(sample, (list, tuple, dict)):
        return sum(map(sample_bytes, sample.values() if isinstance(sample, dict) else sample))
    if isinstance(sample, (bytes, bytearray, str)):
        return len(sample)
    if hasattr(sample, "element_size"):
        return nbytes(sample)
    if hasattr(sample, "nbytes"):
        return int(sample.nbytes)
    return int(sample.size[0] * sample.size[1] * len(sample.getbands())) if hasattr(sample, "getbands") else 8
