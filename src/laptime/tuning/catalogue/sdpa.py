"""Attention is one operator: its scores are never written to memory.

For models of transformers, which can switch. Attention that a script writes out (softmax(q @ k.T) @ v) is not
rewritten: masks and scales differ too much to do that unseen. See
torch.nn.functional.scaled_dot_product_attention.

Source: Dao et al., FlashAttention, 2022; PreTrainedModel.set_attn_implementation, transformers 4.48 and
later.
Lies when: sequences are short: the scores fit in the cache anyway."""

from typing import Any

from laptime.tuning.optimization import LoopProfile, Optimization, Options

WRITTEN_OUT = "eager"  # what transformers calls attention of single operators


def look(hooks: Any) -> list[str]:
    """Say how the trained models of transformers compute attention."""
    configs = [getattr(model, "config", None) for model in hooks.models]
    kinds = [getattr(config, "_attn_implementation", None) for config in configs]
    return [str(kind) for kind in kinds if kind]


def why_not(loop_profile: LoopProfile) -> str:
    if "hf_model" in loop_profile.facts:
        is_written_out = WRITTEN_OUT in (loop_profile.details.get("sdpa") or [])
        return "" if is_written_out else "the model computes attention in one operator already"
    if "attention" in loop_profile.facts:
        return "only models of transformers can switch; write scaled_dot_product_attention by hand"
    return "the trained models have no attention"


def apply(loop: Any, options: Options) -> None:
    def convert(model: Any) -> Any:
        before = getattr(getattr(model, "config", None), "_attn_implementation", None)
        if not hasattr(model, "set_attn_implementation") or before is None:
            loop.refuse(f"{type(model).__name__} cannot switch how it computes attention")
        model.set_attn_implementation("sdpa")
        return lambda: model.set_attn_implementation(before)

    loop.model(convert)


OPTIMIZATION = Optimization(
    title="attention in one operator",
    numerics="reassociated",
    saves={"forward": 0.5, "backward": 0.5},
    prior=0.4,
    why_not=why_not,
    look=look,
    example=["eager"],
    apply=apply,
    edit=lambda script, options: script.after_model('{model}.set_attn_implementation("sdpa")'),
)
