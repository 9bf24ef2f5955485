"""Memory format channels_last: convolutions read neighbouring channels, the layout that fast kernels want.

Source: PyTorch tutorial "Channels Last Memory Format in PyTorch"; oneDNN, cuDNN and XNNPACK all compute in
it.
Lies when: the model permutes its activations often; then layouts are converted back and forth."""

from typing import Any

from laptime.tuning.optimization import Optimization, Options


def apply(loop: Any, options: Options) -> None:
    """Parameters and buffers of every trained model; their inputs and activations follow, since a convolution
    takes the layout of its weight. Gradients and optimizer state that exist already are converted, too: an
    optimizer that runs over a parameter and a momentum of different layouts is slow."""

    def convert_state(optimizer: Any) -> Any:
        _lay_out(_state_of(optimizer), channels_last=True)
        # Undone before the models are: state that came meanwhile goes back as well.
        return lambda: _lay_out(_state_of(optimizer), channels_last=False)

    loop.model(_convert)
    loop.optimizers(convert_state)
    loop.parallel(lambda call: _convert(call.arguments["module"]) if "module" in call.arguments else None)


def _convert(model: Any) -> Any:
    tensors = [tensor for tensor in (*model.parameters(), *model.buffers()) if tensor.dim() == 4]
    strides = [tensor.stride() for tensor in tensors]
    _lay_out(tensors, channels_last=True)

    def back() -> None:
        changed = [tensor for tensor, old in zip(tensors, strides, strict=True) if tensor.stride() != old]
        _lay_out(changed, channels_last=False)

    return back


def _state_of(optimizer: Any) -> list[Any]:
    """The tensors that an optimizer keeps for parameters of four dimensions, in their shape."""
    states = [(key, state) for key, state in optimizer.state.items() if getattr(key, "ndim", 0) == 4]
    pairs = [(parameter, value) for parameter, state in states for value in state.values()]
    return [value for parameter, value in pairs if getattr(value, "shape", None) == parameter.shape]


def _lay_out(tensors: list[Any], *, channels_last: bool) -> None:
    """Change the layout in place, gradients too: whoever holds these tensors sees the new layout.

    By `to`, as `Module.to` does: of one input channel `contiguous` would leave the strides as they are, and
    the first convolution would compute in the other layout than the rest."""
    import torch

    format_ = torch.channels_last if channels_last else torch.contiguous_format
    gradients = [tensor.grad for tensor in tensors if tensor.grad is not None]
    for tensor in [*tensors, *gradients]:
        tensor.data = tensor.data.to(memory_format=format_)


OPTIMIZATION = Optimization(
    title="memory format channels_last",
    numerics="reassociated",
    # Half of forward and backward: oneDNN and cuDNN were seen to gain up to 2x, never more.
    saves={"forward": 0.5, "backward": 0.5},
    live=True,
    needs=frozenset({"conv", "!channels_last"}),
    switch=r"(use_)?channels_last|memory_format",
    switch_values=("channels_last",),
    apply=apply,
    edit=lambda script, options: script.after_model("{model}.to(memory_format=torch.channels_last)"),
)
