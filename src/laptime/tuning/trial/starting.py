"""What a loader's worker runs first: ours, then the script's. A file of its own, for it is pickled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


class Starts:
    """A `worker_init_fn`: callbacks in their order, then the one that the script gave."""

    def __init__(self, first: Sequence[Callable[[int], None]], own: Callable[[int], Any] | None) -> None:
        self.first = list(first)
        self.own = own

    def __call__(self, worker: int) -> None:
        """In worker number `worker`."""
        for start in self.first:
            start(worker)
        if self.own is not None:
            self.own(worker)
