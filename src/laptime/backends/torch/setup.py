"""Makes a program ready as a variant asks: device, dtype, memory format, compiler, threads; and undoes it.

Inputs for a model that came without any: guessed from its first layer, and marked as guessed.

Lies when: the layer registered first is not the one called first, or the model wants another size."""

from __future__ import annotations

import copy
import dis
import gc
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

from laptime.backends import _shared
from laptime.backends._shared import torch
from laptime.backends.torch import tensors
from laptime.backends.torch.place import memory_exhausted
from laptime.kit.errors import TargetError, UsageError
from laptime.records.plan import Variant
from laptime.targets import Program, arguments

_LOOKED = 5000  # objects around a model
_COMPILED_SHAPES = 64  # torch stops compiling new shapes after 8, and runs them eager without a word


class Setup:
    """How the variant wants a program: device, dtype, memory format, compiler, threads; and the way back."""

    def __init__(
        self, variant: Variant, device: torch.device, *, floats: str, packages: tuple[str, ...]
    ) -> None:
        self.variant = variant
        self.device = device
        self.packages = packages
        self.dtype: torch.dtype | None = None if floats == "auto" else getattr(torch, floats)
        self._training: list[tuple[torch.nn.Module, bool]] = []
        self._buffers: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._threads = torch.get_num_threads()

    def ready(self, program: Program, *, is_users: bool = False) -> Program:
        """The program on the device, in the mode that it is given in; a copy of the user's object where that
        changes it. Models known by name and phases of language models are evaluated, training steps train."""
        call = program.call
        if is_users and any(self._changes(module) for module in modules_in(call)):
            call = _copy(call)
        facts = dict(program.facts)
        has_mode = not {"mode", "phase"}.isdisjoint(self.variant.options)
        for module in modules_in(call):
            self._training += [(part, part.training) for part in module.modules()]
            if self.variant.train or program.untrained or has_mode:
                module.train(bool(self.variant.train) or self.variant.options.get("mode") == "train")
            elif is_users and module.training:  # running statistics of the user's model stay his
                self._buffers += [(buffer, buffer.clone()) for buffer in module.buffers()]
            if program.untrained:
                module.to(device=self.device)
                # A vision transformer's head begins so, and the last norm of some residual branches: outputs
                # are zero whatever the model computes before, and nothing can be told from them.
                zeros = [
                    tensor
                    for name, tensor in module.named_parameters()
                    if name.endswith("weight") and tensor.is_floating_point() and not tensor.any()
                ]
                with torch.no_grad(), seeded(self.variant.seed):
                    for tensor in zeros:
                        tensor.normal_(std=0.02)
                if zeros:
                    facts["drawn_weights"] = f"{len(zeros)} that begin as zeros"
                # Training takes the statistics of each batch, not running ones.
                make = None if self.variant.train else program.make
                if make is not None and self._settle(module, make):
                    facts["running_statistics"] = "from one random batch of 2"
            if not is_users or call is not program.call:
                module.to(device=self.device, dtype=self.dtype)
                if self.variant.channels_last:
                    module.to(memory_format=torch.channels_last)
        if self.variant.threads is not None:  # what was just built may have set another number
            torch.set_num_threads(self.variant.threads)
        ready = replace(program, call=call, facts=facts)
        return ready if program.origin != "none" else with_guess(ready)

    def _changes(self, module: torch.nn.Module) -> bool:
        held = list(find_held([module]))
        wrong_dtype = self.dtype is not None and any(
            t.is_floating_point() and t.dtype != self.dtype for t in held
        )
        return self.variant.channels_last or wrong_dtype or any(t.device != self.device for t in held)

    def _settle(self, module: torch.nn.Module, make: Callable[[int], Any]) -> bool:
        """Fill running statistics from one batch; False when the model keeps none.

        With the initial ones (mean 0, variance 1) activations of untrained networks grow to 1e8 or shrink to
        1e-15 with depth: float16 overflows and CPUs slow down on denormals, which trained weights never do.
        """
        norms = [
            part
            for part in module.modules()
            if isinstance(part, torch.nn.modules.batchnorm._BatchNorm) and part.track_running_stats
        ]
        if not norms:
            return False
        momenta = [part.momentum for part in norms]
        threads = torch.get_num_threads()
        for part in norms:
            part.train()
            part.momentum = 1.0
        try:
            # One thread: other workers may do the same at this moment, and threads that wait for each
            # other on too few CPUs take seconds for what one does in a tenth.
            torch.set_num_threads(1)
            with torch.no_grad(), seeded(self.variant.seed):
                args, kwargs = arguments(tensors.move(make(2), self.device))
                module(*args, **kwargs)
        finally:
            torch.set_num_threads(threads)
            for part, momentum in zip(norms, momenta, strict=True):
                part.eval()
                part.momentum = momentum
        return True

    def inputs(self, program: Program, batch: int) -> Any:
        """Inputs on the device: as given, or made for a batch size from the seed, equal in each process."""
        with seeded(self.variant.seed):
            given = () if program.inputs is None else program.inputs
            inputs = given if program.make is None else program.make(batch)
        return tensors.move(inputs, self.device, dtype=self.dtype, channels_last=self.variant.channels_last)

    def compile_call(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """The program under torch.compile if the variant asks for it.

        Every batch size is compiled for itself (`dynamic=False`): with torch's default the second size would
        be compiled for all sizes, and what one case costs would depend on the case before it."""
        if not self.variant.compile:
            return call
        import torch._dynamo

        settings = torch._dynamo.config
        limit = "recompile_limit" if hasattr(settings, "recompile_limit") else "cache_size_limit"
        setattr(settings, limit, max(getattr(settings, limit), _COMPILED_SHAPES))
        compiled: Callable[..., Any] = torch.compile(call, mode=self.variant.compile, dynamic=False)
        return compiled

    def undo(self) -> None:
        for module, was_training in reversed(self._training):  # the first note of a module is the true one
            module.training = was_training
        self._training.clear()
        with torch.no_grad():
            for buffer, was in self._buffers:
                buffer.copy_(was)
        if self.variant.threads is not None:
            torch.set_num_threads(self._threads)


def modules_in(call: Any) -> list[torch.nn.Module]:
    """The modules that a callable is made of: itself, or what its objects and their classes, containers,
    closures, defaults and the globals that it names hold, nearest first."""
    modules: dict[int, torch.nn.Module] = {}
    waiting, seen = deque([call]), set[int]()
    while waiting and len(seen) < _LOOKED:
        part = waiting.popleft()
        if isinstance(part, torch.nn.Module):
            modules.setdefault(id(part), part)
        elif id(part) not in seen:
            seen.add(id(part))
            waiting.extend(_around(part))
    return list(modules.values())


def find_held(modules: Iterable[torch.nn.Module]) -> Iterator[torch.Tensor]:
    """Parameters and buffers of these modules."""
    return (tensor for module in modules for tensor in (*module.parameters(), *module.buffers()))


def _around(part: Any) -> list[Any]:
    match part:
        case partial():
            return [part.func, *part.args, *part.keywords.values()]
        case types.MethodType():
            return [part.__self__, part.__func__]
        case types.FunctionType():
            defaults = [*(part.__defaults__ or ()), *(part.__kwdefaults__ or {}).values()]
            return [*gc.get_referents(*(part.__closure__ or ())), *defaults, *_find_globals(part)]
        case Mapping():
            return list(part.values())
        case list() | tuple() | set():
            return list(part)
        case type():
            held = (torch.nn.Module, Mapping, list, tuple)
            return [each for base in part.__mro__ for each in vars(base).values() if isinstance(each, held)]
        case types.ModuleType():
            return []
    kind = type(part)
    fields = getattr(part, "__dict__", {}).values()
    return [*fields, *gc.get_referents(part), kind, getattr(kind, "__call__", None)]  # noqa: B004 - of the class


def _find_globals(function: types.FunctionType) -> Iterator[Any]:
    """Yield the globals that a function names; of a module, the attribute that it takes."""
    for each, then in pairwise(dis.get_instructions(function)):
        value = function.__globals__.get(each.argval) if each.opname == "LOAD_GLOBAL" else None
        if not isinstance(value, types.ModuleType):
            yield value
        elif value.__name__.partition(".")[0] != "torch":  # whose own functions hold no model
            yield vars(value).get(then.argval)


def with_guess(program: Program) -> Program:
    """The program with guessed inputs if it is a module that tells what it takes; else as it is."""
    if not isinstance(program.call, torch.nn.Module):
        return program
    guessed = guess(program.call)
    if guessed is None:
        raise TargetError(
            f"{type(program.call).__name__} came without inputs, and none can be guessed",
            why="it has no convolution, linear, recurrent or embedding layer of torch's own",
            next="return (model, inputs) from the function",
        )
    make, reason = guessed
    return replace(program, make=make, origin="guessed", facts={**program.facts, "guess": reason})


def _copy(call: Any) -> Any:
    if not isinstance(call, torch.nn.Module):
        raise UsageError(
            "a function around a model cannot be moved or cast",
            why="its model has another device, dtype or memory format than the options ask for",
            next="change the model first, or pass the model itself",
        )
    try:
        return copy.deepcopy(call)
    except Exception as error:
        if memory_exhausted(error):
            raise
        raise UsageError(
            f"{type(call).__name__} cannot be copied to change its device, dtype or memory format",
            why=f"{type(error).__name__}: {error}",
            next="change the model yourself first; laptime leaves the original alone",
        ) from error


def seed_all(seed: int) -> None:
    _shared.seed_all(seed)
    torch.manual_seed(seed)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Draw from the seed inside, and leave the process's own generator as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


# Guessed inputs.


_TOKENS = 128
_SIZES = {1: (1024,), 2: (224, 224), 3: (16, 112, 112)}
"""Of signals, images and videos, by the dimensions of a convolution."""


def guess(model: torch.nn.Module) -> tuple[Callable[[int], Any], str] | None:
    """A maker of inputs and the reason for it; None when no layer tells.

    Conv2d gives (B, in, 224, 224), Conv1d (B, in, 1024), Conv3d (B, in, 16, 112, 112), Linear (B, in),
    Embedding int64 ids (B, 128), recurrent layers (B, 128, in); a timm configuration its own input size."""
    config = getattr(model, "pretrained_cfg", None) or getattr(model, "default_cfg", None)
    item = config.get("input_size") if isinstance(config, dict) else None
    if item is not None:
        return _floats(tuple(item)), "the model's configuration"
    for name, layer in model.named_modules():
        first_guess = _for_layer(layer)
        if first_guess is not None:
            return first_guess, f"the first layer, {name or 'itself'}: {type(layer).__name__}"
    return None


def _for_layer(layer: Any) -> Callable[[int], Any] | None:
    nn = torch.nn
    match layer:
        case nn.Conv1d() | nn.Conv2d() | nn.Conv3d():
            return _floats((layer.in_channels, *_SIZES[len(layer.kernel_size)]))
        case nn.Linear():
            return _floats((layer.in_features,))
        case nn.RNNBase():
            if layer.batch_first:
                return _floats((_TOKENS, layer.input_size))
            return lambda batch: torch.randn(_TOKENS, batch, layer.input_size)
        case nn.Embedding():
            high = layer.num_embeddings
            return lambda batch: torch.randint(high, (batch, _TOKENS))
    return None


def _floats(item: tuple[int, ...]) -> Callable[[int], Any]:
    return lambda batch: torch.randn(batch, *item)
