"""Constructor calls of the script: remembered as it made them, and made as changes want them."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any

from laptime.tuning.trial import sites
from laptime.tuning.trial.board import Board
from laptime.tuning.trial.calls import again, bound
from laptime.tuning.trial.loop import Call
from laptime.tuning.trial.starting import Starts

REMAKERS = ("accelerate", "lightning", "lightning_fabric", "pytorch_lightning")
"""Packages that make a loader of the script once more, with a sampler of their own."""


class Constructors:
    """Makes what the script wants made.

    Attributes:
        calls: as the script gave them. shuffled: by id of a loader, whether its sampler is any but the
            sequential one.
    """

    def __init__(self, board: Board, *, is_placed: bool) -> None:
        """`is_placed`: find out where in the user's source each call is; it costs milliseconds."""
        self.calls: list[Call] = []
        self.shuffled: dict[int, bool] = {}
        self._board = board
        self._is_placed = is_placed
        self._counts: Counter[str] = Counter()
        self._datasets: dict[int, Any] = {}

    def _remember(self, owner: Any, arguments: dict[str, Any], kind: str = "") -> Call:
        """Keep what the script gave; returned is the call that may be changed."""
        kind = kind or type(owner).__name__
        given = Call(kind, type(owner), dict(arguments), self._counts[kind])
        self._counts[kind] += 1
        if self._is_placed:
            sites.of_call(given)
        self.calls.append(given)
        return Call(kind, type(owner), dict(arguments), given.index)

    def loader(self, original: Any, loader: Any, args: Any, kwargs: Any) -> None:
        """A DataLoader: its arguments changed, its dataset wrapped, its workers told something first."""
        arguments = bound(original, loader, args, kwargs)
        if self._is_remade(loader, arguments):
            original(loader, *args, **kwargs)
        else:
            call = self._remember(loader, arguments, "DataLoader")
            self._board.rewrite("loader", call)
            self._dress(call)
            again(original, loader, call.arguments)
        self.shuffled[id(loader)] = _shuffles(loader)

    def _dress(self, call: Call) -> None:
        from torch.utils.data import IterableDataset

        dataset = call.arguments.get("dataset")
        if dataset is not None and not isinstance(dataset, IterableDataset):
            call.arguments["dataset"] = self._board.wrapped(dataset)
        starts = [start for each in self._board.changes for start in each.callbacks["worker"]]
        if starts and call.arguments.get("num_workers"):
            call.arguments["worker_init_fn"] = Starts(starts, call.arguments.get("worker_init_fn"))
        dataset = call.arguments.get("dataset")
        self._datasets[id(dataset)] = dataset

    def _is_remade(self, loader: Any, arguments: dict[str, Any]) -> bool:
        """A library makes a loader of the script once more: it has our changes already."""
        if id(arguments.get("dataset")) not in self._datasets:
            return False
        if type(loader).__module__.partition(".")[0] in REMAKERS:
            return True
        frame = sys._getframe(3)  # this, `loader`, the wrapper, who made it
        return str(frame.f_globals.get("__name__", "")).partition(".")[0] in REMAKERS

    def optimizer(self, original: Any, optimizer: Any, args: Any, kwargs: Any) -> bool:
        """An optimizer; False for one that stands around another, as accelerate's does."""
        from torch.optim import Optimizer

        arguments = bound(original, optimizer, args, kwargs, lists=True)
        if any(isinstance(each, Optimizer) for each in arguments.values()):
            original(optimizer, *args, **kwargs)
            return False
        call = self._remember(optimizer, arguments)
        self._board.rewrite("optimizer", call)
        again(original, optimizer, call.arguments)
        return True

    def parallel(self, original: Any, module: Any, args: Any, kwargs: Any) -> None:
        """A DistributedDataParallel."""
        call = self._remember(module, bound(original, module, args, kwargs), "DistributedDataParallel")
        self._board.rewrite("parallel", call)
        again(original, module, call.arguments)

    def other(self, original: Any, owner: Any, args: Any, kwargs: Any) -> None:
        """A library's arguments or trainer: only remembered."""
        self._remember(owner, bound(original, owner, args, kwargs))
        original(owner, *args, **kwargs)


def _shuffles(loader: Any) -> bool:
    """Whether the order is another than the dataset's, as far as samplers tell; streams count as shuffled."""
    from torch.utils.data import BatchSampler, SequentialSampler

    batches = getattr(loader, "batch_sampler", None)
    if batches is not None and type(batches) is not BatchSampler:
        return True
    return not isinstance(getattr(loader, "sampler", None), SequentialSampler)
