"""The changes that are on. Their callbacks are called here; a change that refuses is taken off.

Constructor calls of the script: remembered as the script made them, and run as changes rewrite them."""

import functools
import inspect
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import lru_cache, partial, reduce
from typing import Any

from laptime.instrument.importing import WhenImported
from laptime.kit.errors import LaptimeError
from laptime.tuning.optimization import load
from laptime.tuning.trial import source_sites
from laptime.tuning.trial.loop import CannotApply, ConstructorCall, Loop, Undo, replace_attr

PER_STEP = ("batch", "input", "forward", "backward", "step", "zero_grad")
"""Kinds of callbacks that are called in every step."""


class ActiveChanges:
    """Changes that are on, in order.

    Attributes:
        changes: one `Loop` each. refused: changes that could not be applied: {"name": ..., "why": ...}.
        left: what an undo could not give back, in words.
        per_step: callbacks of the kinds PER_STEP, flat, each with its owner.
    """

    def __init__(self, refused: list[dict[str, str]], left: list[str]) -> None:
        self.changes: list[Loop] = []
        self.refused, self.left = refused, left
        self._names: dict[int, str] = {}
        self._gather()

    def put_on(self, change: dict[str, Any], loop: Loop, *, live: bool) -> Loop | None:
        """Apply a change (an item of `Recipe.to_json`) through `loop`; None when it cannot be applied."""
        name = str(change["name"])
        self._names[id(loop)] = name
        self.changes.append(loop)
        try:
            own = load(name)
            if live and not own.live:
                loop.refuse("it can only be on from the start of a process")
            options = dict(change.get("options") or {})
            if not options.get("arguments"):  # else the script does it itself
                own.apply(loop, options)
        except (CannotApply, LaptimeError) as refusal:
            self.refuse(loop, str(refusal))
            return None
        except Exception as error:  # a file of somebody else's: the script goes on without it
            self.refuse(loop, f"{type(error).__name__}: {error}")
            return None
        self._gather()
        return loop

    def take_off(self, loop: Loop) -> None:
        """Undo a change. Safe to call when it is off already."""
        if loop not in self.changes:
            return
        self.changes.remove(loop)
        self.left += [f"{self._names[id(loop)]}: {why}" for why in loop.undo()]
        self._gather()

    def refuse(self, loop: Loop, why: str) -> None:
        """Take off a change that is impossible here, and note the reason once."""
        note = {"name": self._names[id(loop)], "why": why}
        if note not in self.refused:
            self.refused.append(note)
        self.take_off(loop)

    def _gather(self) -> None:
        self.per_step: dict[str, list[tuple[Loop, Callable[..., Any]]]] = {
            kind: [(loop, callback) for loop in self.changes for callback in loop.callbacks[kind]]
            for kind in PER_STEP
        }

    # Calling.

    def meet(self, kind: str, subject: Any, *, converts: bool | None = None) -> None:
        """A new object: kind is model, optimizers or parallels; of changes that convert a model's inputs, of
        the others, or (None) of all."""
        for loop in list(self.changes):
            if converts not in (None, bool(loop.callbacks["input"])):
                continue
            try:
                loop.meet(kind, subject)
            except CannotApply as refusal:
                self.refuse(loop, str(refusal))
            except Exception as error:  # as in `put_on`: the script goes on without it
                self.refuse(loop, f"{type(error).__name__}: {error}"[:500])

    def rewrite(self, kind: str, call: ConstructorCall) -> None:
        """Change a constructor call in place: kind is loader, optimizer or parallel."""
        for loop in list(self.changes):
            before = dict(call.arguments)
            try:
                loop.rewritten(kind, call)
            except CannotApply as refusal:
                call.arguments = before
                self.refuse(loop, str(refusal))

    def wrap_dataset(self, dataset: Any) -> Any:
        """A map-style dataset, inside the wrappers of the changes."""
        for loop in list(self.changes):
            try:
                dataset = reduce(lambda inner, wrap: wrap(inner), loop.callbacks["dataset"], dataset)
            except CannotApply as refusal:
                self.refuse(loop, str(refusal))
        return dataset

    def replace_value(self, kind: str, value: Any) -> Any:
        """A value passed through all callbacks, each of which may replace it: kind is batch, input or
        backward."""
        for loop, replace in self.per_step[kind]:
            try:
                value = replace(value)
            except CannotApply as refusal:
                self.refuse(loop, str(refusal))
        return value

    def rewrite_zero_grad(self, arguments: dict[str, Any]) -> None:
        """Change the keyword arguments of zero_grad in place."""
        for loop, rewrite in self.per_step["zero_grad"]:
            try:
                rewrite(arguments)
            except CannotApply as refusal:
                self.refuse(loop, str(refusal))

    def around_step(self, optimizer: Any, step: Callable[[], Any]) -> Callable[[], Any]:
        """An optimizer's step with all callbacks around it, the last outermost."""
        for _, around in self.per_step["step"]:
            step = partial(around, optimizer, step)
        return step


class ForwardRegion:
    """Open from the first call of a trained module to the backward pass, the losses between them included.

    It is left at the latest when the optimizer steps, a batch is fetched, the step ends, or the model raised.
    So it may be entered more than once in a step: micro-batches, the two halves of a GAN."""

    def __init__(self) -> None:
        self._stack: ExitStack | None = None

    @property
    def is_open(self) -> bool:
        """Whether a forward part runs."""
        return self._stack is not None

    def enter(self, contexts: Iterable[Callable[[], AbstractContextManager[Any]]]) -> None:
        """Enter all contexts, unless the region is open already."""
        if self._stack is not None:
            return
        self._stack = ExitStack()
        try:
            for context in contexts:
                self._stack.enter_context(context())
        except BaseException:
            self.leave()
            raise

    def leave(self) -> None:
        """Leave the contexts, last first. Safe to call when it is not open."""
        stack, self._stack = self._stack, None
        if stack is not None:
            stack.close()


# Constructor calls.


LIBRARY_CLASSES = (
    ("transformers.training_args", "TrainingArguments"),
    ("lightning.pytorch.trainer.trainer", "Trainer"),
    ("pytorch_lightning.trainer.trainer", "Trainer"),
)
"""Module and class of libraries that run a loop for the user; their constructor calls are remembered."""
REMAKERS = ("accelerate", "lightning", "lightning_fabric", "pytorch_lightning")
"""Packages that make a loader of the script once more, with a sampler of their own."""
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class ConstructorCalls:
    """Constructs the script's objects, with arguments that changes have rewritten. calls: as the script gave
    them. shuffled: by id of a loader, whether its sampler is any but the sequential one."""

    def __init__(self, changes: ActiveChanges, *, finds_sites: bool) -> None:
        """`finds_sites`: find out where in the user's source each call is; it costs milliseconds."""
        self.calls: list[ConstructorCall] = []
        self.shuffled: dict[int, bool] = {}
        self._changes = changes
        self._finds_sites = finds_sites
        self._counts: Counter[str] = Counter()
        self._datasets: dict[int, Any] = {}

    def _remember(self, owner: Any, arguments: dict[str, Any], kind: str = "") -> ConstructorCall:
        """Remember the script's own call, and return a copy that may be changed."""
        kind = kind or type(owner).__name__
        call = ConstructorCall(kind, type(owner), arguments, self._counts[kind])
        self._counts[kind] += 1
        if self._finds_sites:
            source_sites.of_call(call)
        self.calls.append(call)
        return ConstructorCall(kind, type(owner), dict(arguments), call.index)

    def loader(self, original: Any, loader: Any, args: Any, kwargs: Any) -> None:
        """A DataLoader: arguments are changed, the dataset is wrapped, workers run callbacks first."""
        arguments = bind(original, loader, args, kwargs)
        if self._is_remade(loader, arguments):
            original(loader, *args, **kwargs)
        else:
            call = self._remember(loader, arguments, "DataLoader")
            self._changes.rewrite("loader", call)
            self._wrap_dataset(call)
            call_bound(original, loader, call.arguments)
        self.shuffled[id(loader)] = _shuffles(loader)

    def _wrap_dataset(self, call: ConstructorCall) -> None:
        from torch.utils.data import IterableDataset

        dataset = call.arguments.get("dataset")
        if dataset is not None and not isinstance(dataset, IterableDataset):
            dataset = call.arguments["dataset"] = self._changes.wrap_dataset(dataset)
        starts = [start for loop in self._changes.changes for start in loop.callbacks["worker"]]
        if starts and call.arguments.get("num_workers"):
            own = call.arguments.get("worker_init_fn")
            call.arguments["worker_init_fn"] = partial(init_worker, [*starts, own] if own else starts)
        self._datasets[id(dataset)] = dataset

    def _is_remade(self, loader: Any, arguments: dict[str, Any]) -> bool:
        """Whether a library makes a loader of the script once more: that has our changes already."""
        if id(arguments.get("dataset")) not in self._datasets:
            return False
        if type(loader).__module__.partition(".")[0] in REMAKERS:
            return True
        frame = sys._getframe(4)  # this, `loader`, what stands in, the wrapper, who made it
        return str(frame.f_globals.get("__name__", "")).partition(".")[0] in REMAKERS

    def optimizer(self, original: Any, optimizer: Any, args: Any, kwargs: Any) -> bool:
        """An optimizer; False for one that stands around another, as accelerate's does."""
        from torch.optim import Optimizer

        arguments = bind(original, optimizer, args, kwargs, lists=True)
        if any(isinstance(argument, Optimizer) for argument in arguments.values()):
            original(optimizer, *args, **kwargs)
            return False
        call = self._remember(optimizer, arguments)
        self._changes.rewrite("optimizer", call)
        call_bound(original, optimizer, call.arguments)
        return True

    def parallel(self, original: Any, module: Any, args: Any, kwargs: Any) -> None:
        """A DistributedDataParallel."""
        call = self._remember(module, bind(original, module, args, kwargs), "DistributedDataParallel")
        self._changes.rewrite("parallel", call)
        call_bound(original, module, call.arguments)

    def library(self, original: Any, owner: Any, args: Any, kwargs: Any) -> None:
        """A library's arguments or trainer: the call is only remembered."""
        self._remember(owner, bind(original, owner, args, kwargs))
        original(owner, *args, **kwargs)


def _shuffles(loader: Any) -> bool:
    """Whether the order is another than the dataset's, as far as samplers tell; streams count as shuffled."""
    from torch.utils.data import BatchSampler, SequentialSampler

    batches = getattr(loader, "batch_sampler", None)
    if batches is not None and type(batches) is not BatchSampler:
        return True
    return not isinstance(getattr(loader, "sampler", None), SequentialSampler)


def init_worker(callbacks: Sequence[Callable[[int], Any]], worker: int) -> None:
    """Call what a worker begins with; with its callbacks it is a `worker_init_fn`, which is pickled."""
    for callback in callbacks:
        callback(worker)


class LibraryCalls(WhenImported):
    """Remembers the constructor calls of one class once its module is imported; `remove` gives it back."""

    def __init__(self, module: str, name: str, calls: ConstructorCalls) -> None:
        super().__init__(module, self._wrap)
        self._class, self._calls = (module, name), calls
        self._back: Undo = lambda: None

    def remove(self) -> None:
        """Watch and remember no longer. Safe to call twice."""
        super().remove()
        self._back()

    def _wrap(self) -> None:
        cls = getattr(sys.modules[self._class[0]], self._class[1], None)
        if cls is None or "__init__" not in vars(cls):
            return
        original, calls = cls.__init__, self._calls

        @functools.wraps(original)
        def __init__(self_: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
            calls.library(original, self_, args, kwargs)

        self._back = replace_attr(cls, "__init__", __init__)


@lru_cache(maxsize=256)
def _signature(function: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(function)


def bind(
    function: Callable[..., Any], owner: Any, args: Any, kwargs: Any, *, lists: bool = False
) -> dict[str, Any]:
    """Arguments by name, without `self` and without those that were left out; `**rest` is not nested.
    function: the method that is called. owner: its `self`. args, kwargs: its arguments. lists: turn iterators
    (`model.parameters()`) into lists, so that they can be read more than once.
    Raises TypeError: the function does not take these arguments."""
    signature = _signature(function)
    named = dict(signature.bind(owner, *args, **kwargs).arguments)
    named.pop(next(iter(signature.parameters)), None)
    for name, parameter in signature.parameters.items():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            named |= named.pop(name, {})
    return {key: list(each) if lists and isinstance(each, Iterator) else each for key, each in named.items()}


def call_bound(function: Callable[..., Any], owner: Any, arguments: dict[str, Any]) -> Any:
    """Call a method with arguments by name; those that can only be given by position are."""
    parameters = list(_signature(function).parameters.values())[1:]
    named = dict(arguments)
    variadic = next((each.name for each in parameters if each.kind is inspect.Parameter.VAR_POSITIONAL), None)
    args: list[Any] = []
    for parameter in parameters:
        is_by_position = parameter.kind is inspect.Parameter.POSITIONAL_ONLY or variadic in named
        if parameter.name not in named or parameter.kind not in _POSITIONAL or not is_by_position:
            break
        args.append(named.pop(parameter.name))
    args.extend(named.pop(variadic, ()) if variadic else ())
    return function(owner, *args, **named)
