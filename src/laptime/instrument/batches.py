"""The tensors in a batch that a loader gave, and how many samples it has.

Batches are tensors in tuples, lists, named tuples, dicts and objects that behave like dicts
(BatchEncoding)."""

from collections import Counter
from collections.abc import Iterator, MutableMapping
from typing import Any


def tensors(batch: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every tensor with its place: `[0]`, `['labels']`."""
    import torch

    if isinstance(batch, torch.Tensor):
        yield path, batch
    elif isinstance(batch, (list, tuple)):
        for index, each in enumerate(batch):
            yield from tensors(each, f"{path}[{index}]")
    elif isinstance(batch, MutableMapping):
        for key in list(batch):
            yield from tensors(batch[key], f"{path}[{key!r}]")


def size(batch: Any) -> int:
    """Samples: the leading dimension that most tensors share, or the rows; 0 if there is neither."""
    if is_rows(batch):
        return len(batch)
    sizes = Counter(tensor.shape[0] for _, tensor in tensors(batch) if tensor.dim())
    return int(sizes.most_common(1)[0][0]) if sizes else 0


def is_rows(batch: Any) -> bool:
    """Whether a batch is a list of samples that nobody has put together: with a label that is one number."""
    import torch

    if not isinstance(batch, list) or len(batch) < 2:
        return False
    if not all(isinstance(each, (list, tuple, MutableMapping)) for each in batch):
        return False
    parts = list(batch[0].values() if isinstance(batch[0], MutableMapping) else batch[0])
    return any(isinstance(part, int) or (isinstance(part, torch.Tensor) and not part.dim()) for part in parts)
