"""Activations of blocks are recomputed in the backward pass instead of kept: less memory, more time.

Source: Chen et al., Training Deep Nets with Sublinear Memory Cost, 2016; torch.utils.checkpoint. About a
fifth slower (transformers, "Methods and tools for efficient training on a single GPU").
Lies when: most memory is parameters and optimizer state."""

from typing import Any

from laptime.tuning.catalogue import _inserted
from laptime.tuning.catalogue._trainers import by_trainer
from laptime.tuning.loop_profile import FACT_SENTENCES
from laptime.tuning.optimization import Optimization, Options


def apply(loop: Any, options: Options) -> None:
    """The model's own switch, else torch.utils.checkpoint around each block."""
    from laptime.tuning.catalogue._inserted.checkpoint_blocks import checkpoint_blocks

    def convert(model: Any) -> Any:
        if hasattr(model, "gradient_checkpointing_enable"):
            model.gradient_checkpointing_enable()
            return model.gradient_checkpointing_disable
        wrapped = checkpoint_blocks(model)
        if not wrapped:
            loop.refuse(f"{type(model).__name__} has no repeated blocks without batch normalisation")

        def back() -> None:
            for block in wrapped:
                del block.forward  # the wrapper was the instance's; the class's is found again

        return back

    loop.model(convert)


def edit(script: Any, options: Options) -> None:
    if not by_trainer(script, hf={"gradient_checkpointing": "True"}):
        _inserted.define(script, "checkpoint_blocks")
        script.after_model("checkpoint_blocks({model})")


OPTIMIZATION = Optimization(
    title="activation checkpointing",
    numerics="exact",
    # It saves no time: it costs one more forward pass.
    saves={},
    needs=frozenset({"!checkpointing", "!compiled"}),
    gives=frozenset({"checkpointing"}),
    conflicts=frozenset({"compiled"}),
    goal="memory",
    why_not=lambda loop_profile: (
        "" if {"blocks", "hf_model"} & loop_profile.facts else FACT_SENTENCES["blocks"][1]
    ),
    switch=r"(use_)?(grad(ient)?_|activation_)?checkpointing|checkpoint_activations",
    apply=apply,
    edit=edit,
)
