"""The functions of torch that a trial wraps, beyond those that `instrument.hooks` listens to.

    DataLoader                 __init__     arguments may be changed; workers may run callbacks first
    DataLoader                 __iter__     how long an epoch takes to begin: workers start there
    DataLoader iterators       __init__     which loader an iterator belongs to
    Optimizer and subclasses   __init__     the outermost one of a construction; arguments may be changed
    their classes              step         may be replaced; the outermost one counts
    Optimizer, Module          zero_grad    keyword arguments may be changed
    DistributedDataParallel    __init__     arguments may be changed
    GradScaler                 scale        what the loss was before
    torch.nn.utils             clip_grad_*  the norm that gradients are clipped from
    torch.multiprocessing      spawn        noted

Classes are wrapped where they define the method themselves, and those that the script defines later, too.
Learning-rate schedulers keep an optimizer's wrapped `step` in the instance; after the end it does nothing."""

import sys
import weakref
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

from laptime.instrument.hooks import SPAWN, Hooks
from laptime.instrument.steps import OPTIMIZER
from laptime.tuning.trial.hooks.active_changes import bind

LOADER = "_laptime_loader"  # what gives an iterator's loader is kept in it
SPAWNS = "the script starts processes of its own by torch.multiprocessing.spawn: they were not observed"


class TorchHooks(Hooks):
    """Wraps torch's functions; `undo` gives back the very objects that were there, `left` names others."""

    def __init__(self, loop: Any) -> None:
        super().__init__(loop)
        self._loop = loop
        self._stepping: set[type] = set()
        self._constructing = False
        self._first_originals: list[tuple[Any, str, Any]] = []
        self.iterators: Any = weakref.WeakSet()

    def install(self) -> None:
        """Wrap; torch is imported already."""
        import torch
        from torch.nn.utils import clip_grad
        from torch.utils.data import dataloader

        super().install()
        self._stand_in(dataloader.DataLoader, "__init__", self._loader)
        self._stand_in(dataloader.DataLoader, "__iter__", self._iter)
        self._stand_in(dataloader._BaseDataLoaderIter, "__init__", self._iterator)
        for cls in _family(torch.optim.Optimizer):
            self._constructor(cls)
        self._subclasses(torch.optim.Optimizer)
        self._stand_in(torch.optim.Optimizer, "zero_grad", self._zero_grad)
        self._stand_in(torch.nn.Module, "zero_grad", self._zero_grad)
        # A script has its own name for the function that clips; what that calls (torch 2.6) has one only.
        has_inner = hasattr(clip_grad, "_clip_grads_with_norm_")
        self._stand_in(clip_grad, "_clip_grads_with_norm_" if has_inner else "clip_grad_norm_", self._clip)
        self._stand_in(torch.nn.utils, "clip_grad_value_", self._clip)
        amp: Any = getattr(torch, "amp", None)
        if hasattr(amp, "GradScaler"):
            self._stand_in(amp.GradScaler, "scale", self._scale)
        if hasattr(torch.nn.parallel, "DistributedDataParallel"):
            self._stand_in(torch.nn.parallel.DistributedDataParallel, "__init__", self._parallel)

    def list_left(self) -> list[str]:
        """After `undo`: names of functions that are not the original ones."""
        return [
            f"{getattr(owner, '__name__', owner)}.{name}"
            for owner, name, original in self._first_originals
            if vars(owner).get(name) is not original
        ]

    def _replace(self, owner: Any, name: str, wrap: Callable[[Any], Any]) -> None:
        if not any(first is owner and first_name == name for first, first_name, _ in self._first_originals):
            self._first_originals.append((owner, name, vars(owner).get(name)))
        super()._replace(owner, name, wrap)

    def _stand_in(self, owner: Any, name: str, method: Callable[..., Any]) -> None:
        """Call a method of ours in place of a function of torch's, with that function in front."""

        def wrap(original: Any) -> Any:
            return lambda *args, **kwargs: method(original, *args, **kwargs)

        self._replace(owner, name, wrap)

    def _spawn(self) -> None:
        """Ranks that the script starts itself are not part of a trial: they are noted."""
        module: Any = sys.modules.get(SPAWN)
        if hasattr(module, "start_processes"):
            self._stand_in(module, "start_processes", self._start_processes)

    def _start_processes(self, original: Any, *args: Any, **kwargs: Any) -> Any:
        if SPAWNS not in self._loop.result.notes:
            self._loop.result.notes.append(SPAWNS)
        return original(*args, **kwargs)

    # What Hooks lets us do.

    def _take(self, iterator: Any, original: Any) -> Any:
        reference = iterator.__dict__.get(LOADER)
        return self._loop.give_batch(reference and reference(), lambda: original(iterator))

    def _calls(self, module: Any, inputs: Any) -> None:
        self._loop.note_call(module, inputs)

    def _fail(self) -> None:
        self._loop.region.leave()

    def _run_backward(self, original: Any, args: Any, kwargs: Any) -> Any:
        if kwargs.get("create_graph") and original.__name__ == "grad":
            return original(*args, **kwargs)  # a gradient inside the loss: forward goes on
        return self._loop.went_backward(original, args, kwargs)

    def _hook_steps(self) -> None:
        """Steps are heard of in `step` itself, which can be replaced."""

    # Wrappers.

    def _loader(self, original: Any, loader: Any, *args: Any, **kwargs: Any) -> None:
        if self._loop.phases.is_closed:  # made for a phase that runs: by a dataset, a model
            original(loader, *args, **kwargs)
        else:
            self._loop.constructors.loader(original, loader, args, kwargs)

    def _iterator(self, original: Any, iterator: Any, loader: Any, *args: Any, **kwargs: Any) -> None:
        # `for batch in DataLoader(...)` keeps nothing but the iterator; a loader whose workers persist
        # keeps that in turn: no circle.
        is_keeper = getattr(loader, "persistent_workers", False)
        iterator.__dict__[LOADER] = weakref.ref(loader) if is_keeper else lambda: loader
        original(iterator, loader, *args, **kwargs)
        if getattr(iterator, "_num_workers", 0):
            self.iterators.add(iterator)

    def _iter(self, original: Any, loader: Any) -> Any:
        begun = perf_counter_ns()
        iterator = original(loader)
        self._loop.iterator_starts[self._identity(iterator)] = perf_counter_ns() - begun
        return iterator

    def _constructor(self, cls: type) -> None:
        if "__init__" in vars(cls):
            self._stand_in(cls, "__init__", self._optimizer)

    def _subclasses(self, optimizer: Any) -> None:
        """Optimizers that are defined from now on."""
        constructor = self._constructor

        def __init_subclass__(cls: Any, /, **kwargs: Any) -> None:  # noqa: N807
            super(optimizer, cls).__init_subclass__(**kwargs)
            constructor(cls)

        entry = optimizer, "__init_subclass__", vars(optimizer).get("__init_subclass__")
        self._first_originals.append(entry)
        self._originals.append(entry)
        optimizer.__init_subclass__ = classmethod(__init_subclass__)

    def _optimizer(self, original: Any, optimizer: Any, *args: Any, **kwargs: Any) -> None:
        if self._constructing or self._loop.phases.is_closed:
            original(optimizer, *args, **kwargs)
            return
        self._constructing = True
        try:
            is_own = self._loop.constructors.optimizer(original, optimizer, args, kwargs)
        finally:
            self._constructing = False
        if is_own:
            self._hook_step(type(optimizer))
            self._loop.optimizer_constructed(optimizer)

    def adopt(self, optimizer: Any) -> None:
        """An optimizer that is there already; its scheduler has put a `step` into the instance."""
        self._hook_step(type(optimizer))
        if "step" in vars(optimizer):
            self._replace(optimizer, "step", lambda original: self._own_step(optimizer, original))

    def _hook_step(self, cls: type) -> None:
        if cls not in self._stepping:
            self._stepping.add(cls)
            self._replace(cls, "step", self._step)

    def _step(self, original: Any) -> Any:
        from torch.compiler import is_compiling

        loop, phases = self._loop, self._loop.phases

        def step(self_: Any, *args: Any, **kwargs: Any) -> Any:
            if is_compiling() or not phases.enter(OPTIMIZER):
                return original(self_, *args, **kwargs)
            try:
                result = loop.run_step(self_, lambda: original(self_, *args, **kwargs))
            finally:
                phases.leave()
            loop.optimizer(id(self_))
            return result

        return step

    def _own_step(self, optimizer: Any, original: Any) -> Any:
        """Do what `_step` does for a function in the instance, which is called without it."""
        step = self._step(lambda self_, *args, **kwargs: original(*args, **kwargs))
        return lambda *args, **kwargs: step(optimizer, *args, **kwargs)

    def _zero_grad(self, original: Any, owner: Any, *args: Any, **kwargs: Any) -> Any:
        self._loop.mode.zero_grad(owner, *args, **kwargs)
        if not self._loop.changes.per_step["zero_grad"]:
            return original(owner, *args, **kwargs)
        arguments = bind(original, owner, args, kwargs)
        self._loop.changes.rewrite_zero_grad(arguments)
        return original(owner, **arguments)

    def _clip(self, original: Any, *args: Any, **kwargs: Any) -> Any:
        has_norm = original.__name__ == "_clip_grads_with_norm_"
        norm = kwargs.get("total_norm", args[2] if len(args) > 2 else None) if has_norm else None
        self._loop.mode.clip(norm)
        return original(*args, **kwargs)

    def _scale(self, original: Any, scaler: Any, outputs: Any) -> Any:
        scaled = original(scaler, outputs)
        self._loop.scaled = scaled, outputs
        return scaled

    def _parallel(self, original: Any, module: Any, *args: Any, **kwargs: Any) -> None:
        self._loop.constructors.parallel(original, module, args, kwargs)
        self._loop.parallel_constructed(module)


def _family(cls: type) -> set[type]:
    return {cls}.union(*map(_family, type.__subclasses__(cls)))
