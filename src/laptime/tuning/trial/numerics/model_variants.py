"""Models and optimizers changed for a capture: in double precision, rounded.

Random numbers of compiled code: dropout's masks, a VAE's and a GAN's noise.

Inductor draws them inside its kernels, by another generator than eager code: of the same distribution, but a
step under other masks cannot be compared with one. For a comparison it can draw as eager code does.
Source: torch._inductor.config.fallback_random.

Dropout whose mask depends on the seed alone, not on the order in which a tensor lies in memory.

Torch draws a mask in the order of the memory: under `channels_last` the same seed drops other values, and a
change that computes the same would be compared with a step that dropped others."""

import random
from collections.abc import Callable
from typing import Any

from laptime.tuning.trial import batches
from laptime.tuning.trial.loop import replace_attr

LAST_BITS = "last_bits"
"""Rounds away the last DROPPED bits of a float's own fraction, instead of rounding to a smaller type."""
DROPPED, DROPPED_LATER = 4, 8
"""Of the 24 bits of a float32 the first leaves 20, a relative error of 3e-7 (RMS): as much as summing a
convolution in another order makes, or somewhat more. A model in which such errors turn a sign once in twenty
steps shows none in a few draws of that size, so later draws have sixteen times the error: what one sign
does is then seen, and values that no sign moves are still as good as untouched."""
DRAWS = ("randn", "rand", "randn_like", "rand_like", "normal", "normal_", "uniform_", "exponential_")
"""Names in torch of what draws floating numbers; a mask of dropout is the same in both precisions."""
_HIDDEN = ("params", "lr", "initial_lr", "foreach", "fused", "capturable", "differentiable")


def settings(group: dict[str, Any]) -> dict[str, Any]:
    """Numbers of an optimizer's group that decide what it computes; learning rates are kept by step."""
    numbers: dict[str, Any] = {}
    for name, value in group.items():
        is_list = isinstance(value, (tuple, list)) and all(isinstance(each, (int, float)) for each in value)
        if name not in _HIDDEN and not name.startswith("_") and (is_list or isinstance(value, (int, float))):
            numbers[name] = list(value) if is_list else value
    return numbers


def make_double(tensor: Any) -> Any:
    """A floating tensor in double precision; others as they are."""
    return tensor.double() if tensor.is_floating_point() else tensor


def to_double(models: list[Any], optimizers: list[Any]) -> Callable[[], None]:
    """Put models, optimizer states and everything that is made from now on into double precision.

    Tensor.float gives doubles, too, and so do inputs that were made before. Noise stays what it was
    (`_draw_single`). The result undoes the switches, not the conversion."""
    import torch

    def convert(model: Any, args: Any, kwargs: Any) -> Any:
        return batches.map_tensors(args, make_double), batches.map_tensors(kwargs, make_double)

    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    float_back = replace_attr(torch.Tensor, "float", torch.Tensor.double)
    draws = _draw_single()
    hooks = [model.register_forward_pre_hook(convert, with_kwargs=True) for model in models]
    for model in models:
        model.double()
    for optimizer in optimizers:
        for state in optimizer.state.values():
            for key, value in state.items() if isinstance(state, dict) else ():
                if isinstance(value, torch.Tensor) and value.is_floating_point() and value.dim():
                    state[key] = value.double()

    def undo() -> None:
        torch.set_default_dtype(default)
        draws.__exit__(None, None, None)
        float_back()
        for hook in hooks:
            hook.remove()

    return undo


def _draw_single() -> Any:
    """Let torch draw noise in single precision while its default is double; on until it is left. The same
    seed gives other numbers in double, so a GAN, a VAE or a diffusion would have another step."""
    import torch
    from torch.overrides import TorchFunctionMode

    def narrow(tensor: Any) -> Any:
        return tensor.to(torch.float32) if tensor.dtype is torch.float64 else tensor

    class SingleDraws(TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            name, given = getattr(function, "__name__", ""), dict(kwargs or {})
            if name not in DRAWS or given.get("dtype") is not None:
                return function(*args, **given)
            if name in ("rand", "randn"):
                given["dtype"] = torch.float32
            drawn = function(*batches.map_tensors(args, narrow), **batches.map_tensors(given, narrow))
            if name.endswith("_"):
                return args[0].copy_(drawn)
            is_single = drawn.dtype is torch.float32
            return drawn.detach().double().requires_grad_(drawn.requires_grad) if is_single else drawn

    mode: Any = SingleDraws()
    return mode.__enter__()


def round_models(models: list[Any], kind: str, draw: int = 0) -> Callable[[], None]:
    """Round inputs and outputs of every innermost module, and their gradients on the way back.

    That shows how far a precision turns gradients without any fault in how it is used. To a smaller type the
    weights of products are rounded, too, as autocast does: their errors are the same for every sample, and do
    not average out where gradients are summed (the last bias of a regression). The result undoes it.

    kind: name of a smaller type of torch, or `LAST_BITS`. draw: which errors of that size. From 1 on each
    value is rounded at a random multiple of itself, one to two: where it falls between two numbers that the
    type has is then another place. Of last bits these draws have larger errors, too (`DROPPED_LATER`)."""
    import torch

    small = None if kind == LAST_BITS else getattr(torch, kind)
    shorten = _last_bits(DROPPED_LATER if draw else DROPPED) if small is None else None
    drawn = random.Random(draw)  # noqa: S311, of its own: nobody else's draws are shifted

    def round_value(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            if not value.is_floating_point():
                return value
            factor = 1 + drawn.random() if draw else 1.0
            larger = value * factor if draw else value
            short = shorten(larger) if shorten is not None else larger.to(small).to(value.dtype)
            return short / factor if draw else short
        return type(value)(round_value(part) for part in value) if type(value) in (tuple, list) else value

    handles = []
    for module in (module for model in models for module in model.modules()):
        if small is not None and _has_products(module):
            handles += _round_weights(module, round_value)
        if next(module.children(), None) is None:
            handles.append(module.register_forward_pre_hook(lambda _, inputs: round_value(inputs)))
            handles.append(module.register_forward_hook(lambda _, inputs, outputs: round_value(outputs)))

    def undo() -> None:
        for handle in handles:
            handle.remove()

    return undo


def _has_products(module: Any) -> bool:
    """Whether a module multiplies by weights of its own; an embedding looks them up."""
    import torch

    weights = module.parameters(recurse=False)
    return not isinstance(module, torch.nn.Embedding) and any(weight.dim() > 1 for weight in weights)


def _round_weights(module: Any, rounded_value: Callable[[Any], Any]) -> list[Any]:
    """Hooks that give a module rounded weights during its calls; gradients reach its own, rounded as well."""
    own: list[dict[str, Any]] = []  # a stack: a module may be called inside its own call

    def begin(module: Any, inputs: Any) -> None:
        own.append(dict(module._parameters))
        put({name: rounded_value(each) for name, each in own[-1].items()})

    def end(module: Any, inputs: Any, outputs: Any) -> None:
        put(own.pop())

    def put(parameters: dict[str, Any]) -> None:
        module._parameters.update(parameters)
        if hasattr(module, "_flat_weights_names"):  # recurrent layers have a list of theirs besides
            module._flat_weights = [parameters[name] for name in module._flat_weights_names]

    return [module.register_forward_pre_hook(begin), module.register_forward_hook(end, always_call=True)]


def _last_bits(dropped: int) -> Callable[[Any], Any]:
    """A function of tensors that rounds the last bits away, in both directions of a pass.

    Source: the splitting of Veltkamp and Dekker (1971): with c = (2^s + 1) x, c - (c - x) is x without its
    last s bits, rounded to nearest.
    """
    import torch

    def shorter(values: Any) -> Any:
        large = values * (2.0**dropped + 1)
        short = large - (large - values)
        return torch.where(torch.isfinite(short), short, values)

    class LastBits(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, values: Any) -> Any:
            return shorter(values)

        @staticmethod
        def backward(context: Any, *gradients: Any) -> Any:
            return shorter(gradients[0])

    apply: Callable[[Any], Any] = LastBits.apply
    return apply


# Random numbers of compiled code.


def as_eager() -> Callable[[], None]:
    """Let compiled code draw as eager code does; what was compiled is compiled anew. The result undoes it."""
    from torch import compiler
    from torch._inductor import config

    settings: Any = config
    before = settings.fallback_random

    def switch(value: bool) -> None:
        settings.fallback_random = value
        compiler.reset()

    switch(True)

    return lambda: switch(before)


# Masks of dropout.


def independent_of_layout() -> Callable[[], None]:
    """Let `torch.nn.functional.dropout`, which `nn.Dropout` calls, draw as if its tensor were contiguous.

    The result undoes it. Dropout of whole channels draws one number a channel, in order, anyway."""
    from torch import ones, strided
    from torch.nn import functional

    plain: Callable[..., Any] = functional.dropout

    def dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
        if not training or input.layout is not strided or input.is_contiguous():
            return plain(input, p, training, inplace)
        factors = plain(ones(input.shape, dtype=input.dtype, device=input.device), p, True)
        return input.mul_(factors) if inplace else input * factors

    return replace_attr(functional, "dropout", dropout)
