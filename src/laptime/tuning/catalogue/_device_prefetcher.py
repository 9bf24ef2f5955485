"""A loader whose next batch is copied to the GPU while the present one is used; also put into users'
scripts."""

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch.utils._pytree import tree_map_only


class DevicePrefetcher:
    """Stands in for a DataLoader."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader

    def __len__(self) -> int:
        return len(self.loader)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loader, name)

    def __iter__(self) -> Iterator[Any]:
        return prefetched(self.loader)


def prefetched(batches: Iterable[Any], device: str = "cuda") -> Iterator[Any]:
    """The batches, on the device; each is copied on a stream of its own while the one before is used."""
    cuda: Any = torch.cuda
    stream = cuda.Stream()

    def copied(batch: Any) -> Any:
        with cuda.stream(stream):
            return tree_map_only(torch.Tensor, lambda each: each.to(device, non_blocking=True), batch)

    def ready(batch: Any) -> Any:
        present = cuda.current_stream()
        present.wait_stream(stream)
        tree_map_only(torch.Tensor, lambda each: each.record_stream(present), batch)
        return batch

    following: list[Any] = []
    for batch in batches:
        following.append(copied(batch))
        if len(following) > 1:
            yield ready(following.pop(0))
    yield from map(ready, following)
