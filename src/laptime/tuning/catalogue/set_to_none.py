"""Gradients are dropped instead of being filled with zeros: the next backward pass writes them again.

Source: torch.optim.Optimizer.zero_grad; the default since PyTorch 2.0.
Lies when: a parameter gets no gradient in some steps: with zeros its momentum still moves it, with None it
does not move."""

from laptime.tuning.optimization import Optimization

OPTIMIZATION = Optimization(
    title="gradients set to None",
    numerics="exact",
    # Filling is one write of what the optimizer reads and writes several times, and adding to the zeros one
    # more: at most half of the optimizer and a twentieth of the backward pass.
    saves={"optimizer": 0.5, "other": 0.5, "backward": 0.05},
    live=True,
    needs=frozenset({"zero_grad_to_zero"}),
    apply=lambda loop, options: loop.zero_grad(lambda arguments: arguments.update(set_to_none=True)),
    edit=lambda script, options: script.set_arguments("zero_grad", set_to_none="True"),
)
