"""Activations of blocks are computed again in the backward pass, not kept: less memory, more time.

Source: Chen et al., Training Deep Nets with Sublinear Memory Cost, 2016; torch.utils.checkpoint. About a
fifth slower (transformers, "Methods and tools for efficient training on a single GPU").
Lies when: most memory is parameters and optimizer state.
"""

from __future__ import annotations

from typing import Any

from laptime.tuning.catalogue import _code
from laptime.tuning.catalogue._trainers import by_trainer
from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.optimization import Options

TITLE = "activations computed again, not kept"
NUMERICS = "exact"
TOGGLE = "process"
NEEDS = frozenset({"!checkpointing", "!compiled"})
GIVES = frozenset({"checkpointing"})
CONFLICTS = frozenset({"compiled"})
GOAL = "memory"


def propose(loop_profile: LoopProfile) -> list[Options]:
    """Where there are blocks, or the model can do it by itself."""
    return [{}] if {"blocks", "hf_model"} & loop_profile.facts else []


def why_not(loop_profile: LoopProfile) -> str:
    """There is nothing to wrap."""
    if "checkpointing" in loop_profile.facts:
        return "the script recomputes activations already"
    return "the trained models have no Sequential or ModuleList of alike blocks"


def bound(loop_profile: LoopProfile, options: Options) -> float:
    """It saves no time: it costs one more forward pass."""
    return 0.0


def apply(loop: Any, options: Options) -> None:
    """The model's own switch, else torch.utils.checkpoint around each block."""
    from laptime.tuning.catalogue._checkpointing import checkpoint_blocks

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
    """TrainingArguments(gradient_checkpointing=True), else a function and its call behind the optimizer."""
    if not by_trainer(script, hf={"gradient_checkpointing": "True"}):
        _code.define(script, "_checkpointing")
        script.after_model("checkpoint_blocks({model})")
