"""A loader whose next batch is copied to the GPU while the present one is used; also put into users'
scripts."""

from collections.abc import Iterator
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
        return prefetch_all(self.loader)


def prefetch_all(batches: Any, device: str = "cuda") -> Iterator[Any]:
    """The batches, on the device; each is copied on a stream of its own while the one before is used."""
    cuda: Any = torch.cuda
    stream = cuda.Stream()

    def start_copy(batch: Any) -> tuple[Any, Any]:
        with cuda.stream(stream):
            moved = tree_map_only(torch.Tensor, lambda each: each.to(device, non_blocking=True), batch)
        return moved, stream.record_event()

    def ready(moved: Any, is_copied: Any) -> Any:
        present = cuda.current_stream()
        present.wait_event(is_copied)  # this copy, not the next one that is on its way already
        tree_map_only(torch.Tensor, lambda each: each.record_stream(present), moved)
        return moved

    waiting: list[tuple[Any, Any]] = []
    for batch in batches:
        waiting.append(start_copy(batch))
        if len(waiting) > 1:
            yield ready(*waiting.pop(0))
    for last in waiting:
        yield ready(*last)
