"""Mixed precision in bfloat16: products and convolutions at half width, weights and updates at full.

Source: "Automatic Mixed Precision", torch.amp; bfloat16 has float32's range, so no loss scaling is needed.
Lies when: the loop spends its time in operators that autocast leaves in float32 (normalisation, softmax,
losses): then only the casts are added."""

from typing import Any

from laptime.tuning.catalogue import _bounds, _inserted
from laptime.tuning.catalogue._trainers import by_trainer
from laptime.tuning.optimization import CannotEdit, LoopProfile, Optimization, Options


def bound(loop_profile: LoopProfile, options: Options) -> float:
    """Three quarters of the products in forward and backward: units for bfloat16 are two to sixteen times as
    fast as float32's. Of the rest, half of the bytes."""
    return _bounds.narrower(loop_profile, 0.75) * loop_profile.share("forward", "backward")


def apply(loop: Any, options: Options) -> None:
    """Autocast from the first call of a trained model to the backward pass."""
    import torch

    loop.forward(lambda: torch.autocast(loop.device or "cpu", dtype=torch.bfloat16))


def edit(script: Any, options: Options) -> None:
    """An argument of a trainer; else a block around the forward part; else the model's own forward pass."""
    if by_trainer(script, hf={"bf16": "True"}, lightning={"precision": '"bf16-mixed"'}):
        return
    try:
        script.around_forward("with torch.autocast(device_type={device!r}, dtype=torch.bfloat16):")
    except CannotEdit as reason:
        _inserted.define(script, "in_bfloat16")
        device = "next({model}.parameters()).device.type"
        try:
            script.after_model("{model}.forward = in_bfloat16({model}.forward, " + device + ")")
        except CannotEdit:
            raise reason from None


OPTIMIZATION = Optimization(
    title="mixed precision in bfloat16",
    numerics="precision",
    saves=bound,
    live=True,
    needs=frozenset({"bf16", "!autocast"}),
    gives=frozenset({"autocast"}),
    prior=0.6,
    switch=r"((use|enable)_)?(amp|bf16|bfloat16|autocast|mixed_precision|(amp_)?dtype|precision)",
    switch_values=("bfloat16", "bf16", "bf16-mixed"),
    apply=apply,
    edit=edit,
)
