"""The script's loop as a trial sees it: implements `mode.Points`, and calls what changes have attached.

Which loader trains is not known at its first fetch, when its batches must be converted already. A loader
counts as one of training once a batch of it has gone backward. Before that it does while gradients are
enabled, when it shuffles (any sampler but the sequential one), or when no loader of the script does; and no
more after UNDECIDED fetches without a backward pass.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable
from time import perf_counter
from typing import Any

from laptime.instrument.device import Device
from laptime.instrument.forking import in_children
from laptime.instrument.phases import PhaseClock
from laptime.instrument.session import SWALLOWED, Stop
from laptime.instrument.steps import Cut, Steps
from laptime.tuning.trial.attached import Attached
from laptime.tuning.trial.board import Board
from laptime.tuning.trial.constructors import Constructors
from laptime.tuning.trial.mode import Mode
from laptime.tuning.trial.plan import Plan
from laptime.tuning.trial.region import Region
from laptime.tuning.trial.result import Trial
from laptime.tuning.trial.wrapping import Wrapping

UNDECIDED = 4
"""Fetches without a backward pass after which a loader is none of training."""
NARROWED = 2
"""Whole steps after which the outermost modules are known."""


def _nothing() -> None:
    pass


class Points:
    """See `mode.Points`.

    Attributes:
        trial: what is known by now; modes fill it in, `__main__` writes it.
        board: which changes are on. made: constructor calls. region: the forward part of the step.
        began: perf_counter of the trial's start. epoch_start: nanoseconds that the loader took, right before
            the first step of an epoch, to make an iterator and start its workers; 0 before other steps.
        scaled: what a GradScaler of the script's has made of a loss, and the loss, until it goes backward.
        stopped: how often the script was asked to end. on_close: called before the process is ended at once.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.models: list[Any] = []
        self.optimizers: list[Any] = []
        self.parallels: list[Any] = []
        self.loaders: list[Any] = []
        self.phases = PhaseClock()
        self.device = Device()
        self.steps = Steps(plan.step_by)
        self.trial = Trial()
        self.region = Region()
        self.refused = self.trial.refused
        self.board = Board(self.refused, self.trial.left)
        self.made = Constructors(self.board, is_placed=plan.mode == "diagnose")
        self.calls = self.made.calls
        self.epoch_start = 0
        self.scaled: tuple[Any, Any] | None = None
        self.began = perf_counter()
        self.stopped = 0
        self.on_close: Callable[[], None] = _nothing
        self.on_settled: Callable[[], None] = _nothing
        self._mode: Mode
        self._hooks = Wrapping(self)
        self._fetches: Counter[int] = Counter()
        self._fetching = 0
        self._starts: dict[int, int] = {}
        self._fetched: Any = None
        self._called: dict[int, tuple[Any, bool]] = {}
        self._met: set[int] = set()
        self._trained: set[int] = set()
        self._built: list[Any] = []
        self._stepped: set[int] = set()
        self._ended = 0
        self._source = ""
        self._is_over = False
        self._is_grad_enabled: Callable[[], bool] = lambda: True

    def listen(self, mode: Mode) -> None:
        """Tell this mode of the loop."""
        self._mode = mode

    def install(self) -> None:
        """Wrap torch's functions and apply the plan's base; torch was imported just now."""
        import torch

        self._is_grad_enabled = torch.is_grad_enabled
        self._hooks.install()
        in_children(self._keep_still)
        for change in self.plan.base:
            self._put(change, live=False)

    def undo(self) -> None:
        """Give everything back; `trial.left` says what could not be. Safe to call twice."""
        self._keep_still()
        self.region.leave()
        self.take_off(list(self.board.changes))
        self._hooks.undo()
        if not self._is_over:
            self._is_over = True
            self.trial.left += self._hooks.left() + self._end_workers()

    def _keep_still(self) -> None:
        """A forked child of the script is no loop, nor is what runs after the end."""
        self.phases.is_closed = True

    def _end_workers(self) -> list[str]:
        """Loader workers that wait for an epoch that will not come."""
        left = []
        for iterator in list(self._hooks.iterators):
            workers = list(getattr(iterator, "_workers", ()))
            iterator._shutdown_workers()
            left += [f"loader worker {worker.pid}" for worker in workers if worker.is_alive()]
        return left

    # The switch board.

    def put_on(self, changes: list[dict[str, Any]]) -> list[Attached]:
        """Apply live changes now; those that cannot be are in `refused`."""
        made = [self._put(each, live=True) for each in changes]
        return [each for each in made if each is not None]

    def _put(self, change: dict[str, Any], *, live: bool) -> Attached | None:
        attached = Attached(
            live=live,
            models=self.models,
            optimizers=self._built,
            parallels=self.parallels,
            device=_device_of(self.models[0]) if self.models else "",
        )
        return self.board.put(change, attached, live=live)

    def take_off(self, handle: list[Attached]) -> None:
        """Undo what a handle stands for, last first."""
        for attached in reversed(handle):
            self.board.take_off(attached)

    def refuses(self, handle: list[Attached], changes: list[dict[str, Any]]) -> bool:
        """Whether not all of these changes, put on as `handle`, are still on."""
        return len(handle) < len(changes) or any(each not in self.board.changes for each in handle)

    # What the hooks tell of construction.

    def optimizer_made(self, optimizer: Any) -> None:
        """The script has an optimizer more."""
        self._built.append(optimizer)
        self.board.meet("optimizers", optimizer)

    def adopt(self, optimizers: list[Any]) -> None:
        """Optimizers that were made before anything was wrapped; a step of the loop is one of theirs."""
        for optimizer in optimizers:
            self.steps.optimizer_made()
            self._hooks.adopt(optimizer)
            self.optimizer_made(optimizer)

    def parallel_made(self, module: Any) -> None:
        """The script has a DistributedDataParallel more."""
        self.parallels.append(module)
        self.board.meet("parallels", module)

    # What they tell of the loop.

    def fetch(self, loader: int) -> None:
        """A batch is about to be fetched."""
        self.region.leave()
        self._fetching = loader
        self.epoch_start = self._starts.pop(loader, 0)
        self._cut(self.steps.fetch(loader))

    def epoch_begun(self, loader: int, nanoseconds: int) -> None:
        """An iterator of a loader was made, its workers started."""
        self._starts[loader] = nanoseconds

    def exhausted(self, loader: int) -> None:
        """A loader has no more batches."""
        self.region.leave()
        self._cut(self.steps.exhausted(loader))

    def forward(self, module: int) -> None:
        """An outermost module is about to be called."""
        self._cut(self.steps.forward(module))

    def optimizer(self, optimizer: int) -> None:
        """An optimizer has stepped."""
        self._cut(self.steps.optimizer(optimizer))

    def _cut(self, cut: int) -> None:
        if self.stopped:
            self.stop()
        if not cut:
            return
        self.region.leave()
        if self._source != self.steps.source:
            self._source, self._ended = self.steps.source, 0
        if cut & Cut.ENDS:
            self._ended += 1
            if self.trial.first is None:
                self.trial.first = perf_counter() - self.began
            if self._ended == max(NARROWED, self.plan.settle):
                self.on_settled()
        self.phases.cut()
        self._mode.boundary(ended=bool(cut & Cut.ENDS), begins=bool(cut & Cut.BEGINS))

    def taken(self, loader: Any, original: Callable[[], Any]) -> Any:
        """The batch that the script is given."""
        known = self._fetching
        self._fetched = loader
        self._fetches[known] += 1
        if not self.board.hot["batch"] or not self._is_training(loader, known):
            return self._mode.fetch(loader, original)
        return self._mode.fetch(loader, lambda: self.board.fold("batch", original()))

    def _is_training(self, loader: Any, known: int) -> bool:
        if self.steps.is_training(known):
            return True
        if self._fetches[known] > UNDECIDED or not self._is_grad_enabled():
            return False
        shuffled = self.made.shuffled
        return shuffled.get(id(loader), True) or not any(shuffled.values())

    def called(self, module: Any) -> None:
        """An outermost module is about to be called."""
        if self._can_train(module):
            self.forward(id(module))
        self._mode.forward(module)
        if not self._is_grad_enabled():
            return
        if id(module) not in self._met:
            self._meet(module)
        contexts = self.board.hot["forward"]
        if contexts and id(module) in self._trained:
            self.region.enter(context for _, context in contexts)

    def _can_train(self, module: Any) -> bool:
        """Whether it has parameters to train: a transform, a loss and a frozen teacher begin no step."""
        if id(module) not in self._called:
            found = any(parameter.requires_grad for parameter in module.parameters())
            self._called[id(module)] = module, found  # kept, so that no other gets its id
        return self._called[id(module)][1]

    def _meet(self, module: Any) -> None:
        self._met.add(id(module))
        if not self._can_train(module):
            return
        self._trained.add(id(module))
        self.models.append(module)
        for attached in self.board.changes:
            attached.device = attached.device or _device_of(module)
        self.board.meet("model", module)

    def went_backward(self, original: Any, args: Any, kwargs: Any) -> Any:
        """A backward pass."""
        self.region.leave()
        loader, self._fetched = self._fetched, None
        if loader is not None and not any(loader is known for known in self.loaders):
            self.loaders.append(loader)
        name = next((name for name in ("tensors", "outputs") if name in kwargs), "")
        root = args[0] if args else kwargs.get(name)

        def run() -> Any:
            if not self.board.hot["backward"]:
                return original(*args, **kwargs)
            scaled = self.board.fold("backward", root)
            return original(scaled, *args[1:], **kwargs) if args else original(**{**kwargs, name: scaled})

        try:
            return self._mode.backward(root, run)
        finally:
            self.scaled = None

    def unscaled(self, root: Any) -> Any:
        """What a backward pass starts from, before the script's GradScaler has scaled it."""
        return self.scaled[1] if self.scaled is not None and self.scaled[0] is root else root

    def stepped(self, optimizer: Any, original: Callable[[], Any]) -> Any:
        """An optimizer steps."""
        self.region.leave()
        if id(optimizer) not in self._stepped:
            self._stepped.add(id(optimizer))
            self.optimizers.append(optimizer)
        run = self.board.around_step(optimizer, original) if self.board.hot["step"] else original
        return self._mode.step(optimizer, run)

    # The end.

    def stop(self) -> None:
        """End the script; one that swallows that is ended at the fourth time.

        Raises:
            Stop: unwinds the script.
        """
        self.stopped += 1
        if self.stopped > SWALLOWED:
            self.on_close()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)
        raise Stop


def _device_of(module: Any) -> str:
    """Type of the device of a module's first parameter: cpu, cuda."""
    return next((str(parameter.device.type) for parameter in module.parameters()), "")
