"""A snapshot of a training in this process, and its restoration: nothing of it remembers that it was tried.

Objects stay the same ones: values are written back into the very memory that they were in. What is in no
model, optimizer, learning-rate scheduler, gradient scaler, generator or random state is not restored: a step
that counts in a variable of its own goes on counting.

Shifts the seeds that a script sets by one number: other initial weights, order of data and dropout.

torch.manual_seed, random.seed and numpy.random.seed get the number added; the three are seeded with it when
the trial starts, or the module is imported. Generators that a script makes itself are left alone."""

import copy
import functools
import gc
import random
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from laptime.instrument.importing import WhenImported

Undo = Callable[[], None]


class TrainingSnapshot:
    """State of a training now: of its model, of the optimizers that train it, and of its random generators.

    Optimizers that are made, or step for the first time, later are not in it: the step makes its own."""

    def __init__(self, model: Any, generators: Iterable[Any] = ()) -> None:
        self.optimizers = training(model)
        modules = [*model.modules(), *_beside(model, self.optimizers)]
        others = _schedulers_and_scalers(self.optimizers)
        # Last first: modules, then values, so that what was put in place of a buffer is not written into.
        import torch

        threads = torch.get_num_threads()

        def restore() -> None:
            if torch.get_num_threads() != threads:
                torch.set_num_threads(threads)

        self._restores: list[Undo] = [
            *random_states(),
            restore,
            *(partial(generator.set_state, generator.get_state().clone()) for generator in generators),
            *(partial(each.load_state_dict, copy.deepcopy(each.state_dict())) for each in others),
            *(_optimizer(optimizer) for optimizer in self.optimizers),
            *(_value(tensor) for tensor in _values(modules, self.optimizers)),
            *(_module(module) for module in modules),
        ]

    def restore(self) -> None:
        """Put everything back as it was. Safe to call twice."""
        while self._restores:
            self._restores.pop()()


def optimizers() -> list[Any]:
    """Every torch optimizer that is alive in this process; none before torch is imported."""
    module: Any = sys.modules.get("torch.optim")
    return [] if module is None else list(_alive(module.Optimizer))


def training(model: Any) -> list[Any]:
    """The living optimizers that have a parameter of this model, and those that share one with these."""
    trained = {id(parameter) for parameter in model.parameters()}
    others, result = optimizers(), []
    while sharing := [each for each in others if trained & {id(one) for one in _parameters(each)}]:
        result += sharing
        others = [each for each in others if all(each is not one for one in sharing)]
        trained |= {id(parameter) for optimizer in sharing for parameter in _parameters(optimizer)}
    return result


def _alive(kind: type) -> Iterator[Any]:
    # By type: asking a proxy for its class makes it do things.
    return (candidate for candidate in gc.get_objects() if issubclass(type(candidate), kind))


def _parameters(optimizer: Any) -> list[Any]:
    # One that was made without its constructor, as copies are for a moment, has no groups.
    groups = vars(optimizer).get("param_groups", ())
    return [parameter for group in groups for parameter in group["params"]]


def _beside(model: Any, trained: list[Any]) -> list[Any]:
    """Modules outside of the model that own what its optimizers train: the other half of a GAN."""
    import torch

    others = {id(parameter) for optimizer in trained for parameter in _parameters(optimizer)}
    others -= {id(parameter) for parameter in model.parameters()}
    if not others:
        return []
    return [
        module
        for module in _alive(torch.nn.Module)
        if any(id(parameter) in others for parameter in vars(module).get("_parameters", {}).values())
    ]


def _schedulers_and_scalers(trained: list[Any]) -> list[Any]:
    import torch

    alive = _alive(torch.optim.lr_scheduler.LRScheduler)
    schedulers = [each for each in alive if any(vars(each).get("optimizer") is own for own in trained)]
    scaler = getattr(torch.amp, "GradScaler", None)
    return schedulers + (list(_alive(scaler)) if scaler is not None else [])


# Each returns a function that restores one thing.


def _values(modules: list[Any], trained: list[Any]) -> list[Any]:
    """Parameters, buffers and gradients, each once."""
    tensors = [
        each for module in modules for each in (*module._parameters.values(), *module._buffers.values())
    ]
    tensors += [parameter for optimizer in trained for parameter in _parameters(optimizer)]
    return list({id(tensor): tensor for tensor in tensors if tensor is not None}.values())


def _value(tensor: Any) -> Undo:
    """Its numbers, in its own memory and layout; the gradient that it has, and whether it wants one."""
    restore_numbers = _numbers(tensor)
    gradient, wants = tensor.grad if tensor.is_leaf else None, tensor.requires_grad
    restore_gradient = None if gradient is None else _numbers(gradient)

    def restore() -> None:
        restore_numbers()
        if tensor.is_leaf:
            tensor.grad = None  # whose type would not fit meanwhile
            tensor.requires_grad_(wants)
        if restore_gradient is not None:
            restore_gradient()
            tensor.grad = gradient

    return restore


def _numbers(tensor: Any) -> Undo:
    memory = tensor.data  # the same storage, type and strides, whatever `tensor` is made to be
    numbers = memory.to("cpu", copy=True)  # the device's peak is measured

    def restore() -> None:
        memory.copy_(numbers)
        tensor.data = memory

    return restore


def _module(module: Any) -> Undo:
    """Return which objects it has, and its mode."""
    tables = [_table(table, dict(table)) for table in (module._parameters, module._buffers)]
    training, compiled = module.training, getattr(module, "_compiled_call_impl", None)

    def restore() -> None:
        for restore_table in tables:
            restore_table()
        module.training = training
        if getattr(module, "_compiled_call_impl", None) is not compiled:
            module._compiled_call_impl = compiled

    return restore


def _optimizer(optimizer: Any) -> Undo:
    """Its groups, and its state: the same tensors with the numbers that they had."""
    import torch

    groups, state = list(optimizer.param_groups), dict(optimizer.state)
    inner = [value for value in state.values() if isinstance(value, dict)]
    back = [_table(group, {name: _copy(value) for name, value in group.items()}) for group in groups]
    back += [_table(each, dict(each)) for each in inner]
    values = (value for table in (*inner, *groups) for value in table.values())
    back += [_numbers(value) for value in values if isinstance(value, torch.Tensor)]

    def restore() -> None:
        optimizer.param_groups[:] = groups
        optimizer.state.clear()
        optimizer.state.update(state)
        for each in back:
            each()

    return restore


def _table(table: dict[Any, Any], before: dict[Any, Any]) -> Undo:
    def restore() -> None:
        table.clear()
        table.update(before)

    return restore


def _copy(setting: Any) -> Any:
    """A copy of a group's setting; its parameters, and a rate that is a tensor, stay themselves."""
    if isinstance(setting, list):
        return list(setting)
    return copy.deepcopy(setting) if isinstance(setting, (dict, tuple)) else setting


def random_states() -> list[Undo]:
    """Functions that restore the random states of Python, torch, its CUDA devices and numpy."""
    import torch

    restores: list[Undo] = [partial(random.setstate, random.getstate())]
    restores.append(partial(torch.set_rng_state, torch.get_rng_state()))
    numpy: Any = sys.modules.get("numpy.random")
    if numpy is not None:
        restores.append(partial(numpy.set_state, numpy.get_state()))
    cuda: Any = torch.cuda
    if cuda.is_initialized():
        restores.append(partial(cuda.set_rng_state_all, cuda.get_rng_state_all()))
    return restores


# Seeds.


class SeedShift:
    """Shifts seeds by `shift`; `undo` gives back the very functions that were there."""

    def __init__(self, shift: int) -> None:
        self._shift = shift
        self._originals: list[tuple[Any, str, Any]] = []
        self._is_inside = False
        self._import_hooks = [
            WhenImported("torch", self._torch),
            WhenImported("numpy.random", self._numpy),
        ]

    def install(self) -> None:
        """Seed the generators, and shift the seeds that the script sets."""
        self._seed_and_shift(random, "seed")
        for import_hook in self._import_hooks:
            import_hook.install()

    def undo(self) -> list[str]:
        """Give everything back; returns what could not be, in words. Safe to call twice."""
        for import_hook in self._import_hooks:
            import_hook.remove()
        left = []
        for owner, name, original in reversed(self._originals):
            setattr(owner, name, original)
            if vars(owner)[name] is not original:
                left.append(f"{owner.__name__}.{name}")
        self._originals = []
        return left

    def _torch(self) -> None:
        torch: Any = sys.modules["torch"]
        self._seed_and_shift(torch, "manual_seed")
        for name in ("manual_seed", "manual_seed_all"):
            self._replace(torch.cuda, name)
        self._replace(torch.random, "manual_seed")

    def _numpy(self) -> None:
        self._seed_and_shift(sys.modules["numpy.random"], "seed")
        source: Any = sys.modules["numpy.random.bit_generator"]
        # Generators without a seed, such as `default_rng()` and gymnasium's, ask the system for one.
        self._originals.append((source, "randbits", source.randbits))
        source.randbits = random.Random(self._shift).getrandbits  # noqa: S311

    def _seed_and_shift(self, owner: Any, name: str) -> None:
        getattr(owner, name)(self._shift % 2**32)
        self._replace(owner, name)

    def _replace(self, owner: Any, name: str) -> None:
        original: Callable[..., Any] = getattr(owner, name)

        @functools.wraps(original)
        def seed(*args: Any, **kwargs: Any) -> Any:
            # torch.manual_seed calls that of every device: shifted once.
            if self._is_inside:
                return original(*args, **kwargs)
            self._is_inside = True
            try:
                named = {key: self._shift_seed(each) for key, each in kwargs.items() if key in ("seed", "a")}
                return original(*map(self._shift_seed, args), **kwargs | named)
            finally:
                self._is_inside = False

        self._originals.append((owner, name, original))
        setattr(owner, name, seed)

    def _shift_seed(self, seed: Any) -> Any:
        """A shifted number; None, words and arrays stay what they are."""
        if isinstance(seed, bool) or not hasattr(seed, "__index__"):
            return seed
        return (int(seed) + self._shift) % 2**32 if seed >= 0 else seed
