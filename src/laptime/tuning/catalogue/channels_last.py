"""Memory format channels_last: convolutions read neighbouring channels, the layout that fast kernels want.

Source: PyTorch tutorial "Channels Last Memory Format in PyTorch"; oneDNN, cuDNN and XNNPACK all compute in
it.
Lies when: the model permutes its activations often; then layouts are converted back and forth.
"""

from __future__ import annotations

from typing import Any

from laptime.tuning.optimization import LoopProfile, Options

TITLE = "memory format channels_last"
NUMERICS = "reassociated"
TOGGLE = "live"
NEEDS = frozenset({"conv", "!channels_last"})


def bound(loop_profile: LoopProfile, options: Options) -> float:
    """Half of forward and backward: oneDNN and cuDNN were seen to gain up to 2x, never more."""
    return 0.5 * loop_profile.share("forward", "backward")


def apply(loop: Any, options: Options) -> None:
    """Parameters and buffers of every trained model; their inputs and activations follow, since a convolution
    takes the layout of its weight. Gradients and optimizer state that exist already are converted, too: an
    optimizer that runs over a parameter and a momentum of different layouts is slow."""
    loop.model(_convert)
    loop.optimizers(_convert_state)
    loop.parallel(lambda call: _convert(call.arguments["module"]) if "module" in call.arguments else None)


def _convert(model: Any) -> Any:
    tensors = [tensor for tensor in (*model.parameters(), *model.buffers()) if tensor.dim() == 4]
    before = [(tensor, tensor.stride()) for tensor in tensors]
    for tensor in tensors:
        _lay_out(tensor, channels_last=True)
        if tensor.grad is not None:
            _lay_out(tensor.grad, channels_last=True)

    def back() -> None:
        for tensor, strides in before:
            if tensor.stride() != strides:
                _lay_out(tensor, channels_last=False)
                if tensor.grad is not None:
                    _lay_out(tensor.grad, channels_last=False)

    return back


def _convert_state(optimizer: Any) -> Any:
    _lay_out_state(optimizer, channels_last=True)
    # Undone before the models are: state that came meanwhile goes back as well.
    return lambda: _lay_out_state(optimizer, channels_last=False)


def _lay_out_state(optimizer: Any, *, channels_last: bool) -> None:
    for parameter, state in optimizer.state.items():
        if getattr(parameter, "ndim", 0) != 4:
            continue
        for value in state.values():
            if getattr(value, "shape", None) == parameter.shape:
                _lay_out(value, channels_last=channels_last)


def _lay_out(tensor: Any, *, channels_last: bool) -> None:
    """In place: whoever holds this tensor sees the new layout."""
    import torch

    format_ = torch.channels_last if channels_last else torch.contiguous_format
    tensor.data = tensor.data.contiguous(memory_format=format_)


def edit(script: Any, options: Options) -> None:
    script.after_model("{model}.to(memory_format=torch.channels_last)")
