"""Activations are kept instead of being computed again: where memory allows it, a forward pass is saved.

Source: transformers, "Methods and tools for efficient training on a single GPU"; torch.utils.checkpoint.
Lies when: later batches are larger than those that were tried: memory runs out then.
"""

from __future__ import annotations

from typing import Any

from laptime.tuning.catalogue._trainers import by_trainer
from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.optimization import CannotEdit, Options

TITLE = "activations kept, not computed again"
NUMERICS = "exact"
TOGGLE = "process"
NEEDS = frozenset({"checkpointing"})
GIVES = frozenset({"no_checkpointing"})
CONFLICTS: frozenset[str] = frozenset()
PRIOR = 0.7

ROOM = 1.0
"""Free memory at least, as a multiple of the present peak: activations are a multiple of what is kept now."""


def propose(loop_profile: LoopProfile) -> list[Options]:
    """Where there is room, or where nobody knows: then a trial shows it."""
    return [{}] if "checkpointing" in loop_profile.facts and _has_room(loop_profile) else []


def why_not(loop_profile: LoopProfile) -> str:
    """Nothing is computed again, or memory is short."""
    if "checkpointing" not in loop_profile.facts:
        return "no activations are computed again"
    return "less memory is free than is in use: keeping the activations would not fit"


def bound(loop_profile: LoopProfile, options: Options) -> float:
    """The forward pass inside the backward pass."""
    return min(loop_profile.share("forward"), loop_profile.share("backward"))


def apply(loop: Any, options: Options) -> None:
    """torch.utils.checkpoint calls straight on, and the model's own switch."""
    import torch.utils.checkpoint as library

    def switch() -> Any:
        names = ("checkpoint", "checkpoint_sequential")
        before = {name: getattr(library, name) for name in names}
        for name, straight in zip(names, (_straight, _sequential), strict=True):
            setattr(library, name, straight)

        def back() -> None:
            for name, function in before.items():
                setattr(library, name, function)

        return back

    def convert(model: Any) -> Any:
        if not getattr(model, "is_gradient_checkpointing", False):
            return None
        model.gradient_checkpointing_disable()
        return model.gradient_checkpointing_enable

    loop.process(switch)
    loop.model(convert)


def edit(script: Any, options: Options) -> None:
    """TrainingArguments(gradient_checkpointing=False).

    Raises:
        CannotEdit: the script calls torch.utils.checkpoint itself.
    """
    if not by_trainer(script, hf={"gradient_checkpointing": "False"}):
        raise CannotEdit("checkpoint(function, ...) is to be replaced by function(...) by hand")


def _straight(function: Any, *args: Any, **kwargs: Any) -> Any:
    """In place of torch.utils.checkpoint.checkpoint."""
    for name in (
        "use_reentrant",
        "preserve_rng_state",
        "context_fn",
        "determinism_check",
        "debug",
        "early_stop",
    ):
        kwargs.pop(name, None)
    return function(*args, **kwargs)


def _sequential(functions: Any, segments: int, input: Any, **kwargs: Any) -> Any:
    """In place of torch.utils.checkpoint.checkpoint_sequential."""
    for function in functions:
        input = function(input)
    return input


def _has_room(loop_profile: LoopProfile) -> bool:
    on_host = loop_profile.device.split(":")[0] == "cpu"
    free = loop_profile.memory if on_host else loop_profile.device_memory
    return free is None or loop_profile.peak is None or free >= ROOM * loop_profile.peak
