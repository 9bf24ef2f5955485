"""Mixed precision in float16 with loss scaling: for devices that are fast in float16 and not in bfloat16.

While it is raced, gradients are unscaled as soon as the backward pass ends, so that the script's clipping
sees the true ones; the edited script calls `unscale_` behind the backward call where it clips.

Source: "Automatic Mixed Precision", torch.amp; Micikevicius et al., Mixed Precision Training, 2018.
Lies when: many steps are skipped for overflowing gradients; skipped steps are fast steps.
"""

from typing import Any

from laptime.tuning.catalogue._grad_scaler import Scaling
from laptime.tuning.catalogue._trainers import by_trainer
from laptime.tuning.optimization import CannotEdit, LoopProfile, Options

TITLE = "mixed precision in float16, loss scaled"
NUMERICS = "precision"
SAVES = {"forward": 0.7, "backward": 0.7}
"""As of bfloat16, less what checking and unscaling the gradients costs."""
NEEDS = frozenset({"cuda", "fp16", "!autocast", "!grad_scaler", "!closure"})
GIVES = frozenset({"autocast", "grad_scaler"})


def propose(loop_profile: LoopProfile) -> list[Options]:
    """`clips` tells the edit that gradients are looked at before the step."""
    options: Options = {"clips": True} if "clipping" in loop_profile.facts else {}
    if "accumulation" in loop_profile.facts and options:
        options["accumulates"] = True
    return [options]


def apply(loop: Any, options: Options) -> None:
    """Autocast around the forward part; the loss scaled; steps with inf or NaN in the gradients left out."""
    import torch

    scaling = Scaling(torch.amp.GradScaler(loop.device or "cuda"))
    loop.optimizers(scaling.meet)
    loop.forward(lambda: torch.autocast(loop.device or "cuda", dtype=torch.float16))
    loop.backward(scaling.scale)
    loop.step(scaling.step)


def edit(script: Any, options: Options) -> None:
    if by_trainer(script, hf={"fp16": "True"}, lightning={"precision": '"16-mixed"'}):
        return
    if options.get("accumulates"):
        raise CannotEdit(
            "scaler.unscale_(optimizer) is to be put before the clipping by hand: not every backward "
            "call is followed by it"
        )
    script.define('scaler = torch.amp.GradScaler("cuda")', "import torch")
    script.around_forward('with torch.autocast(device_type="cuda", dtype=torch.float16):')
    unscale = "\nscaler.unscale_({optimizer})" if options.get("clips") else ""
    script.replace_backward("scaler.scale({loss}).backward()" + unscale)
    script.replace_step("scaler.step({optimizer})\nscaler.update()")
