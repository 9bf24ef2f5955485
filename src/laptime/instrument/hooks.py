"""The few functions of torch that are wrapped while a script is observed, and given back afterwards.

    DataLoader iterators    __next__            data; the wait for a batch
    BatchSampler            __init__            where ranks share a batch: each gets its part
    those with workers      __init__, shutdown  starting and ending workers, anew for each epoch
    Module                  __call__            forward; the outermost call does more than pass through
    torch.autograd          backward, grad      backward; Tensor.backward calls it
    Optimizer               step                through torch's own global hooks
    Optimizer               __init__            tells that this is training, before anything has stepped
    torch.multiprocessing   spawn               started ranks are observed, too
    APART                                       checkpoints, pictures and logs are not part of a step

`Module.__call__` and not torch's global forward hooks: those make every module of the model take a slow
path, seven times as expensive. Once the loop has settled, only the classes of its outermost modules stay
wrapped, so that the modules inside cost nothing. Code that is being compiled passes through: the wrapper is
in no graph; and what was compiled stays as it was compiled: there it is not taken off before the end. A call
that is traced (`torch.jit.trace`, an export) is none of the loop's."""

import functools
import math
import sys
import weakref
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

from laptime.instrument.importing import WhenImported, in_children
from laptime.instrument.messages import Settings
from laptime.instrument.step_observer import StepObserver
from laptime.instrument.steps import BACKWARD, DATA, FORWARD, OPTIMIZER, StepFinder, Stop

SPAWN = "torch.multiprocessing.spawn"  # the module that starts ranks
APART = (
    ("torch", "save"),
    ("safetensors.torch", "save_file"),
    ("torch.utils.tensorboard.writer", "SummaryWriter._get_file_writer"),
    ("wandb.sdk.wandb_run", "Run.log"),
    ("matplotlib.figure", "Figure.savefig"),
    ("PIL.Image", "Image.save"),
)
"""Module and function that saves or logs: a step which does so is dropped if most do not."""
_KNOWN = "_laptime"  # what is known of a loader's iterator is kept in it: it lives for an epoch


class Hooks:
    """Wraps torch's functions. `undo` gives back the very objects that were there."""

    def __init__(self, listener: StepFinder, observe_ranks: Callable[[Any], Any] | None = None) -> None:
        """`observe_ranks` wraps the function that torch starts ranks with; None leaves ranks alone."""
        self._listener = listener
        self._observe_ranks = observe_ranks
        self._originals: list[tuple[Any, str, Any]] = []
        self._handles: list[Any] = []
        self._loaders: list[tuple[Callable[[], Any], object]] = []
        self._outermost: set[type] = set()
        self._watches: list[WhenImported] = []

    def install(self) -> None:
        """Wrap; torch is imported already."""
        import torch
        from torch.utils.data import BatchSampler, dataloader

        self._replace(dataloader._BaseDataLoaderIter, "__next__", self._next)
        for name in ("__init__", "_shutdown_workers"):
            self._replace(dataloader._MultiProcessingDataLoaderIter, name, self._workers)
        if self._listener.share > 1:
            self._replace(BatchSampler, "__init__", self._divide)
        self._outermost = set()
        self._replace(torch.nn.Module, "__call__", self._call)
        self._replace(torch.autograd, "backward", self._backward)
        self._replace(torch.autograd, "grad", self._backward)
        self._is_grad_enabled = torch.is_grad_enabled
        self._replace(torch.optim.Optimizer, "__init__", self._create)
        self._watches = [
            WhenImported(module, functools.partial(self._set_apart, module, name)) for module, name in APART
        ]
        for watch in self._watches:
            watch.install()
        self._spawn()
        self._hook_steps()
        self._listener.on_settled = self.narrow
        # A process forked from this one is no loop of ours: a loader's worker, a child of the script.
        in_children(self.undo)

    def narrow(self) -> None:
        """Wrap the outermost modules that were called so far, and no others."""
        import torch

        module: Any = torch.nn.Module
        compiler: Any = sys.modules.get("torch._dynamo.utils")
        has_compiled = compiler is not None and compiler.counters["stats"]
        if has_compiled or any("__call__" in vars(kind) for kind in self._outermost):
            return
        entry = next(original for original in self._originals if original[:2] == (module, "__call__"))
        self._originals.remove(entry)
        wrapper = module.__call__
        module.__call__ = entry[2]
        for kind in self._outermost:
            self._originals.append((kind, "__call__", None))
            setattr(kind, "__call__", wrapper)  # noqa: B010, a method

    def undo(self) -> None:
        """Give everything back. Safe to call twice."""
        for watch in self._watches:
            watch.remove()
        for owner, name, original in reversed(self._originals):
            if original is None:
                delattr(owner, name)
            else:
                setattr(owner, name, original)
        for handle in self._handles:
            handle.remove()
        self._originals, self._handles, self._loaders = [], [], []

    def _replace(self, owner: Any, name: str, wrap: Callable[[Any], Any]) -> None:
        original = getattr(owner, name)
        self._originals.append((owner, name, vars(owner).get(name)))  # None: it is inherited
        setattr(owner, name, functools.wraps(original)(wrap(original)))

    def _spawn(self) -> None:
        """Ranks are started by torch with a function that is found by its name in their own process: ours."""
        spawn: Any = sys.modules.get(SPAWN)
        if self._observe_ranks is not None and hasattr(spawn, "_wrap"):
            self._originals.append((spawn, "_wrap", spawn._wrap))
            spawn._wrap = self._observe_ranks(spawn._wrap)

    # What a subclass that stands in between may do otherwise.

    def _hook_steps(self) -> None:
        from torch.optim import optimizer

        self._handles = [
            optimizer.register_optimizer_step_pre_hook(self._before_step),
            optimizer.register_optimizer_step_post_hook(self._after_step),
        ]

    def _take(self, iterator: Any, original: Any) -> Any:
        return original(iterator)

    def _calls(self, module: Any, inputs: Any) -> None:
        """An outermost module is about to be called with these inputs."""
        graded = self._is_grad_enabled()
        self._listener.forward(id(module), graded=graded, trains=module.training)
        if graded and module.training:
            self._listener.give(inputs, id(module))

    def _fail(self) -> None:
        """The call of an outermost module has raised."""

    def _run_backward(self, original: Any, args: Any, kwargs: Any) -> Any:
        return original(*args, **kwargs)

    # Wrappers.

    def _next(self, original: Any) -> Any:
        listener, phases, take = self._listener, self._listener.phases, self._take

        def __next__(self_: Any) -> Any:  # noqa: N807, as in torch's own stack
            if not phases.is_free_for(DATA):
                return original(self_)
            noted = self_.__dict__.get(_KNOWN)
            if noted is None:
                noted = self_.__dict__[_KNOWN] = self._identity(self_), _batches(self_)
            loader, batches = noted
            if self_._num_yielded >= batches:
                listener.exhaust(loader)
                return original(self_)
            listener.fetch(loader)
            phases.enter(DATA)
            try:
                batch = take(self_, original)
            except StopIteration:
                listener.exhaust(loader)
                raise
            finally:
                phases.leave()
            listener.take(batch, loader, batches)
            return batch

        return __next__

    def _identity(self, iterator: Any) -> int:
        """The same number, from 1, for all iterators of one loader, and of one that each epoch makes anew: it
        takes the place of one that is gone, whose dataset was of its type and that gave as many batches."""
        owner = getattr(iterator, "_index_sampler", iterator)
        kind = type(getattr(iterator, "_dataset", None)), _batches(iterator)
        same = [index for index, (loader, _) in enumerate(self._loaders) if loader() is owner]
        gone = [at for at, (loader, its) in enumerate(self._loaders) if loader() is None and its == kind]
        at = (*same, *gone, len(self._loaders))[0]
        reference = weakref.ref(owner) if type(owner).__weakrefoffset__ else lambda: owner
        self._loaders[at : at + 1] = [(reference, kind)]
        return at + 1

    def _divide(self, original: Any) -> Any:
        share = self._listener.share

        def __init__(self: Any, sampler: Any, batch_size: Any, *rest: Any, **named: Any) -> None:  # noqa: N807
            own = max(1, batch_size // share) if type(batch_size) is int else batch_size
            original(self, sampler, own, *rest, **named)

        return __init__

    def _workers(self, original: Any) -> Any:
        listener = self._listener

        def run_timed(*args: Any, **kwargs: Any) -> None:
            begun = perf_counter_ns()
            try:
                original(*args, **kwargs)
            finally:
                listener.workers_ns += perf_counter_ns() - begun

        return run_timed

    def _call(self, original: Any) -> Any:
        import torch
        from torch.compiler import is_compiling

        is_tracing: Any = torch._C._is_tracing
        calls, failed = self._calls, self._fail
        phases, outermost = self._listener.phases, self._outermost

        # The name `self` is what torch's profiler looks for to find modules.
        def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
            if phases.is_closed or is_compiling() or is_tracing() or not phases.is_free_for(FORWARD):
                return original(self, *args, **kwargs)
            outermost.add(type(self))
            calls(self, (args, kwargs))
            phases.enter(FORWARD)
            try:
                return original(self, *args, **kwargs)
            except BaseException:
                failed()
                raise
            finally:
                phases.leave()

        return __call__

    def _backward(self, original: Any) -> Any:
        from torch.compiler import is_compiling

        listener, phases, run = self._listener, self._listener.phases, self._run_backward

        def backward(*args: Any, **kwargs: Any) -> Any:
            if is_compiling() or not phases.enter(BACKWARD):
                return original(*args, **kwargs)
            listener.steps.backward()
            try:
                return run(original, args, kwargs)
            finally:
                phases.leave()

        return backward

    def _set_apart(self, module: str, name: str) -> None:
        owner, _, function = name.rpartition(".")
        place = getattr(sys.modules[module], owner, None) if owner else sys.modules[module]

        def wrap(original: Any) -> Any:
            def apart(*args: Any, **kwargs: Any) -> Any:
                self._listener.steps.apart()
                return original(*args, **kwargs)

            return apart

        if hasattr(place, function):
            self._replace(place, function, wrap)

    def _create(self, original: Any) -> Any:
        steps, made = self._listener.steps, self._listener.made_optimizers

        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
            steps.optimizer_made()
            original(self, *args, **kwargs)
            made.add(self)

        return __init__

    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self._listener.phases.enter(OPTIMIZER):
            self._stepping: Any = optimizer

    def _after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        # A subclass that calls its parent's step is hooked twice; the outer one counts.
        if self._listener.phases.current == OPTIMIZER and self._stepping is optimizer:
            self._stepping = None
            self._listener.phases.leave()
            self._listener.optimizer(id(optimizer))


def _batches(iterator: Any) -> float:
    """How many batches a loader will give, as far as it knows. Asking it takes a walk through samplers."""
    try:
        return len(iterator._index_sampler)
    except (AttributeError, TypeError, NotImplementedError):
        return math.inf


# Ranks that a script starts by `torch.multiprocessing.spawn`, each observed as those of torchrun are.


ORIGINAL: list[Any] = []  # Torch's own, in the process that has replaced it


def observe_ranks(original: Any) -> Any:
    """Return the replacement of torch's own function that starts a rank, which is `original`."""
    ORIGINAL[:] = [original]
    return wrap


def wrap(function: Any, *rest: Any) -> None:
    """Stands in for torch's own `_wrap` in the started process: gives it the function with hooks around."""
    original = getattr(sys.modules[SPAWN], "_wrap", None)
    if original is None or original is wrap:  # a forked child has ours still
        original = ORIGINAL[0]
    settings = Settings.from_environment()
    original(function if settings is None else _Observed(function, settings), *rest)


class _Observed:
    def __init__(self, function: Any, settings: Settings) -> None:
        self._function = function
        self._settings = settings

    def __call__(self, *arguments: Any) -> None:
        observer = StepObserver(self._settings)
        hooks = Hooks(observer, observe_ranks)
        hooks.install()
        try:
            self._function(*arguments)
        except Stop:
            pass
        finally:
            hooks.undo()
            observer.finish()
