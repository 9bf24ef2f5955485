"""A loader of the user made once more, and the generators that it draws from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

_ARGUMENTS = (
    "num_workers", "collate_fn", "pin_memory", "timeout", "worker_init_fn", "multiprocessing_context",
    "generator", "prefetch_factor", "persistent_workers",
)  # fmt: skip
_OF_WORKERS = ("prefetch_factor", "persistent_workers", "multiprocessing_context")


def copy_loader(loader: Iterable[Any]) -> Iterable[Any]:
    """A DataLoader constructed as it was, so that changes see its construction; others as they are."""
    if not _is_data_loader(loader):
        return loader
    original: Any = loader
    arguments: dict[str, Any] = {name: getattr(original, name) for name in _ARGUMENTS}
    if original.batch_size is not None:  # torch has made the batch sampler
        arguments |= {"batch_size": original.batch_size, "drop_last": original.drop_last}
        kind = type(original.sampler).__name__
        if kind == "RandomSampler" and not original.sampler.replacement:
            arguments["shuffle"] = True
        elif kind not in ("SequentialSampler", "_InfiniteConstantSampler"):
            arguments["sampler"] = original.sampler
    elif original.batch_sampler is not None:
        arguments["batch_sampler"] = original.batch_sampler
    else:
        arguments |= {"batch_size": None, "sampler": original.sampler}
    if not arguments["num_workers"]:
        for name in _OF_WORKERS:
            arguments.pop(name)
    copy: Iterable[Any] = type(original)(original.dataset, **arguments)
    return copy


def generators(loader: Any) -> list[Any]:
    """The generators that a loader of torch draws from beside the process's own, each once."""
    unique: dict[int, Any] = {}
    for owner in (loader, getattr(loader, "sampler", None), getattr(loader, "batch_sampler", None)):
        generator = getattr(owner, "generator", None)
        if _is_data_loader(loader) and hasattr(generator, "get_state"):
            unique[id(generator)] = generator
    return list(unique.values())


def _is_data_loader(loader: Any) -> bool:
    return any(
        kind.__name__ == "DataLoader" and kind.__module__.startswith("torch.")
        for kind in type(loader).__mro__
    )
