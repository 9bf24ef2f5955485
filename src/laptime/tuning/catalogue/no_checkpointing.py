"""Activations are kept instead of recomputed: if memory allows it, a forward pass is saved.

Source: transformers, "Methods and tools for efficient training on a single GPU"; torch.utils.checkpoint.
Lies when: later batches are larger than those that were tried: memory runs out then."""

from typing import Any

from laptime.tuning.catalogue._trainers import by_trainer
from laptime.tuning.optimization import CannotEdit, LoopProfile, Optimization, Options

ROOM = 1.0
"""Free memory at least, as a multiple of the present peak: activations are a multiple of what is kept now."""


def why_not(loop_profile: LoopProfile) -> str:
    """If it is not known how much memory is free, a trial shows whether it is enough."""
    if "checkpointing" not in loop_profile.facts:
        return "no activations are computed again"
    on_host = loop_profile.device.split(":")[0] == "cpu"
    free = loop_profile.memory if on_host else loop_profile.device_memory
    if free is not None and loop_profile.peak is not None and free < ROOM * loop_profile.peak:
        return "less memory is free than is in use: keeping the activations would not fit"
    return ""


def apply(loop: Any, options: Options) -> None:
    """torch.utils.checkpoint calls straight on, and the model's own switch."""
    import torch.utils.checkpoint as library

    def convert(model: Any) -> Any:
        if not getattr(model, "is_gradient_checkpointing", False):
            return None
        model.gradient_checkpointing_disable()
        return model.gradient_checkpointing_enable

    loop.set_attribute(library, "checkpoint", _straight)
    loop.set_attribute(library, "checkpoint_sequential", _sequential)
    loop.model(convert)


def edit(script: Any, options: Options) -> None:
    if not by_trainer(script, hf={"gradient_checkpointing": "False"}):
        raise CannotEdit("checkpoint(function, ...) is to be replaced by function(...) by hand")


ARGUMENTS = {
    *("use_reentrant", "preserve_rng_state", "context_fn", "determinism_check", "debug", "early_stop"),
}
"""Of torch.utils.checkpoint.checkpoint itself."""


def _straight(function: Any, *args: Any, **kwargs: Any) -> Any:
    """Replace torch.utils.checkpoint.checkpoint."""
    return function(*args, **{name: value for name, value in kwargs.items() if name not in ARGUMENTS})


def _sequential(functions: Any, segments: int, input: Any, **kwargs: Any) -> Any:
    """Replace torch.utils.checkpoint.checkpoint_sequential."""
    for function in functions:
        input = function(input)
    return input


OPTIMIZATION = Optimization(
    title="no activation checkpointing",
    numerics="exact",
    # The forward pass inside the backward pass.
    saves=lambda loop_profile, options: min(loop_profile.share("forward"), loop_profile.share("backward")),
    needs=frozenset({"checkpointing"}),
    prior=0.7,
    why_not=why_not,
    apply=apply,
    edit=edit,
)
