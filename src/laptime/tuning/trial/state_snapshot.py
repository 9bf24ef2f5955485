"""What a training in this process is now, kept, and given back: nothing of it remembers that it was tried.

Objects stay the same ones: values are written back into the very memory that they were in. What is in no
model, optimizer, learning-rate scheduler, gradient scaler, generator or random state is not known here: a
step that counts in a variable of its own goes on counting.
"""

from __future__ import annotations

import copy
import gc
import random
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

Undo = Callable[[], None]


class TrainingSnapshot:
    """State of a training now: of its model, of the optimizers that train it, and of what draws for it.

    Optimizers that are made, or step for the first time, later are not known: they are of the step's own.
    """

    def __init__(self, model: Any, generators: Iterable[Any] = ()) -> None:
        self.optimizers = training(model)
        modules = [*model.modules(), *_beside(model, self.optimizers)]
        # Last first: modules, then values, so that what was put in place of a buffer is not written into.
        self._undo: list[Undo] = [
            *_process(),
            *(_generator(each) for each in generators),
            *(_stateful(each) for each in _around(self.optimizers)),
            *(undo for each in self.optimizers for undo in _optimizer(each)),
            *(_value(each) for each in _values(modules, self.optimizers)),
            *(_module(each) for each in modules),
        ]

    def restore(self) -> None:
        """Everything is as it was. Safe to call twice."""
        while self._undo:
            self._undo.pop()()


def optimizers() -> list[Any]:
    """Every torch optimizer that is alive in this process; none before torch is imported."""
    module: Any = sys.modules.get("torch.optim")
    return [] if module is None else list(_alive(module.Optimizer))


def training(model: Any) -> list[Any]:
    """The living optimizers that have a parameter of this model, and those that share one with these."""
    known = {id(each) for each in model.parameters()}
    waiting, found = optimizers(), []
    while fitting := [each for each in waiting if known & {id(one) for one in _parameters(each)}]:
        found += fitting
        waiting = [each for each in waiting if all(each is not one for one in fitting)]
        known |= {id(one) for each in fitting for one in _parameters(each)}
    return found


def _alive(kind: type) -> Iterator[Any]:
    # By type: asking a proxy for its class makes it do things.
    return (each for each in gc.get_objects() if issubclass(type(each), kind))


def _parameters(optimizer: Any) -> list[Any]:
    # One that was made without its constructor, as copies are for a moment, has no groups.
    return [each for group in vars(optimizer).get("param_groups", ()) for each in group["params"]]


def _beside(model: Any, trained: list[Any]) -> list[Any]:
    """Modules outside of the model that own what its optimizers train: the other half of a GAN."""
    import torch

    own = {id(each) for each in model.parameters()}
    others = {id(each) for one in trained for each in _parameters(one)} - own
    if not others:
        return []
    return [
        module
        for module in _alive(torch.nn.Module)
        if any(id(each) in others for each in vars(module).get("_parameters", {}).values())
    ]


def _around(trained: list[Any]) -> list[Any]:
    """Schedulers of these optimizers, and gradient scalers."""
    import torch

    found = [
        each
        for each in _alive(torch.optim.lr_scheduler.LRScheduler)
        if any(vars(each).get("optimizer") is one for one in trained)
    ]
    scaler = getattr(torch.amp, "GradScaler", None)
    return found + (list(_alive(scaler)) if scaler is not None else [])


# How each kind of thing is kept: a function that gives it back.


def _values(modules: list[Any], trained: list[Any]) -> list[Any]:
    """Parameters, buffers and gradients, each once."""
    found: dict[int, Any] = {}
    for module in modules:
        for each in (*module._parameters.values(), *module._buffers.values()):
            if each is not None:
                found[id(each)] = each
    for each in (one for optimizer in trained for one in _parameters(optimizer)):
        found[id(each)] = each
    return list(found.values())


def _value(tensor: Any) -> Undo:
    """Its numbers, in its own memory and layout; the gradient that it has, and whether it wants one."""
    own = _numbers(tensor)
    gradient, wants = tensor.grad if tensor.is_leaf else None, tensor.requires_grad
    of_gradient = None if gradient is None else _numbers(gradient)

    def back() -> None:
        own()
        if tensor.is_leaf:
            tensor.grad = None  # whose type would not fit meanwhile
            tensor.requires_grad_(wants)
        if gradient is not None and of_gradient is not None:
            of_gradient()
            tensor.grad = gradient

    return back


def _numbers(tensor: Any) -> Undo:
    memory = tensor.data  # the same storage, type and strides, whatever `tensor` is made to be
    numbers = memory.to("cpu", copy=True)  # the device's peak is measured

    def back() -> None:
        memory.copy_(numbers)
        tensor.data = memory

    return back


def _module(module: Any) -> Undo:
    """Which objects it has, and its mode."""
    tables = [(table, dict(table)) for table in (module._parameters, module._buffers)]
    training, compiled = module.training, getattr(module, "_compiled_call_impl", None)

    def back() -> None:
        for table, before in tables:
            table.clear()
            table.update(before)
        module.training = training
        if getattr(module, "_compiled_call_impl", None) is not compiled:
            module._compiled_call_impl = compiled

    return back


def _optimizer(optimizer: Any) -> list[Undo]:
    """Its groups, and its state: the same tensors with the numbers that they had."""
    import torch

    groups = [
        (group, {name: _copy(value) for name, value in group.items()}) for group in optimizer.param_groups
    ]
    state = {key: dict(value) if isinstance(value, dict) else value for key, value in optimizer.state.items()}
    inner = {key: value for key, value in optimizer.state.items() if isinstance(value, dict)}
    tables = [*inner.values(), *optimizer.param_groups]
    numbers = [
        _numbers(each) for table in tables for each in table.values() if isinstance(each, torch.Tensor)
    ]

    def back() -> None:
        optimizer.param_groups[:] = [group for group, _ in groups]
        for group, before in groups:
            group.clear()
            group.update(before)
        optimizer.state.clear()
        for key, before in state.items():
            if key in inner:
                inner[key].clear()
                inner[key].update(before)
            optimizer.state[key] = inner.get(key, before)
        for each in numbers:
            each()

    return [back]


def _copy(setting: Any) -> Any:
    """Of a group's setting; its parameters, and a rate that is a tensor, stay themselves."""
    if isinstance(setting, list):
        return list(setting)
    return copy.deepcopy(setting) if isinstance(setting, (dict, tuple)) else setting


def _stateful(each: Any) -> Undo:
    state = copy.deepcopy(each.state_dict())
    return lambda: each.load_state_dict(state)


def _generator(generator: Any) -> Undo:
    state = generator.get_state().clone()
    return lambda: generator.set_state(state)


def _process() -> list[Undo]:
    """Random states of the process, its threads."""
    import torch

    python, threads, states = random.getstate(), torch.get_num_threads(), torch.get_rng_state()
    found: list[Undo] = [lambda: random.setstate(python), lambda: torch.set_rng_state(states)]

    def back() -> None:
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)

    found.append(back)
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None:
        drawn = numpy.random.get_state()
        found.append(lambda: numpy.random.set_state(drawn))
    cuda: Any = torch.cuda
    if cuda.is_initialized():
        devices = cuda.get_rng_state_all()
        found.append(lambda: cuda.set_rng_state_all(devices))
    return found
