"""Attention in one operator: scores are never written to memory.

For models of transformers, which can switch. Attention that a script writes out (softmax(q @ k.T) @ v) is not
rewritten: masks and scales differ too much to do that unseen. See
torch.nn.functional.scaled_dot_product_attention.

Source: Dao et al., FlashAttention, 2022; PreTrainedModel.set_attn_implementation, transformers 4.48 and
later.
Lies when: sequences are short: the scores fit the cache anyway.
"""

from __future__ import annotations

from typing import Any

from laptime.tuning.loop_profile import LoopProfile
from laptime.tuning.optimization import Options

TITLE = "attention in one operator"
NUMERICS = "reassociated"
TOGGLE = "process"
NEEDS = frozenset({"hf_model"})
GIVES = frozenset({"sdpa"})
CONFLICTS: frozenset[str] = frozenset()
PRIOR = 0.4

WRITTEN_OUT = "eager"
"""What transformers calls attention of single operators."""


def look(points: Any) -> list[str]:
    """How the trained models of transformers compute attention."""
    configs = [getattr(model, "config", None) for model in points.models]
    found = [getattr(config, "_attn_implementation", None) for config in configs]
    return [str(each) for each in found if each]


def propose(loop_profile: LoopProfile) -> list[Options]:
    """Where it is written out, and can be switched."""
    return [{}] if WRITTEN_OUT in (loop_profile.details.get("sdpa") or []) else []


def why_not(loop_profile: LoopProfile) -> str:
    """What to do by hand."""
    if "hf_model" in loop_profile.facts:
        return "the model computes attention in one operator already"
    if "attention" in loop_profile.facts:
        return (
            "attention that is written out stays; torch.nn.functional.scaled_dot_product_attention can "
            "take its place"
        )
    return "the trained models have no attention"


def bound(loop_profile: LoopProfile, options: Options) -> float:
    """Half of forward and backward."""
    return 0.5 * loop_profile.share("forward", "backward")


def apply(loop: Any, options: Options) -> None:
    """The model's own switch."""

    def convert(model: Any) -> Any:
        before = getattr(getattr(model, "config", None), "_attn_implementation", None)
        if not hasattr(model, "set_attn_implementation") or before is None:
            loop.refuse(f"{type(model).__name__} cannot switch how it computes attention")
        model.set_attn_implementation("sdpa")
        return lambda: model.set_attn_implementation(before)

    loop.model(convert)


def edit(script: Any, options: Options) -> None:
    """One line behind the optimizer."""
    script.after_model('{model}.set_attn_implementation("sdpa")')
