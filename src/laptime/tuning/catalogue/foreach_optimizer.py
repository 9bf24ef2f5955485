"""The optimizer works on lists of tensors instead of one after another.

Source: torch.optim, `foreach=True`; it is the default on GPUs, and not on the CPU.
Lies when: tensors are large: memory is read several times for what one loop would do at once."""

from typing import Any

from laptime.tuning.catalogue.fused_optimizer import switch
from laptime.tuning.optimization import Optimization, Options


def apply(loop: Any, options: Options) -> None:
    def convert(optimizer: Any) -> Any:
        if any("foreach" not in group for group in optimizer.param_groups):
            loop.refuse(f"{type(optimizer).__name__} has no foreach version")
        return switch(optimizer, fused=False, foreach=True)

    loop.optimizers(convert)


OPTIMIZATION = Optimization(
    title="optimizer on lists of tensors",
    numerics="reassociated",
    saves={"optimizer": 2 / 3},
    live=True,
    needs=frozenset({"!fused", "!foreach"}),
    conflicts=frozenset({"fused"}),
    prior=0.2,
    why_not=lambda loop_profile: (
        "it is torch's default on this device" if {"cuda", "xpu"} & loop_profile.facts else ""
    ),
    apply=apply,
    edit=lambda script, options: script.set_arguments("optimizer", foreach="True"),
)
