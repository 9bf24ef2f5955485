"""One kernel for the whole optimizer step, in place of several for each parameter.

Source: torch.optim, `fused=True`. AdamW's step on one CPU thread was measured 2.9 times as fast as the one
over single tensors; parameters differed by 7e-9.
Lies when: the optimizer is a small part of the step.
"""

from typing import Any

from laptime.tuning.catalogue._optimizers import FUSED, switch, why_not_fused
from laptime.tuning.catalogue._trainers import by_trainer
from laptime.tuning.optimization import LoopProfile, Options

TITLE = "fused optimizer"
NUMERICS = "reassociated"
SAVES = {"optimizer": 0.9}
"""All but a tenth of the optimizer: parameters, gradients and state still have to be read and written."""
TOGGLE = "live"
NEEDS = frozenset({"!fused"})
GIVES = frozenset({"fused"})
CONFLICTS = frozenset({"foreach_optimizer"})
PRIOR = 0.7


def why_not(loop_profile: LoopProfile) -> str:
    name = loop_profile.optimizer.get("class") or "the optimizer"
    has_fused = FUSED & loop_profile.facts
    return "" if has_fused else f"{name} has no fused version: SGD, Adam, AdamW and Adagrad have"


def apply(loop: Any, options: Options) -> None:
    def convert(optimizer: Any) -> Any:
        why = why_not_fused(optimizer)
        return loop.refuse(why) if why else switch(optimizer, fused=True, foreach=False)

    loop.optimizers(convert)


def edit(script: Any, options: Options) -> None:
    """An argument of the optimizer's call; of a trainer's, the fused AdamW, its default class."""
    if not by_trainer(script, hf={"optim": '"adamw_torch_fused"'}):
        script.set_arguments("optimizer", fused="True")
        script.remove_argument("optimizer", "foreach")
