"""Numbers below float32's normal range count as zero: a CPU is up to a hundred times slower on them.

Source: torch.set_flush_denormal.
Lies when: denormals appear late in training, as weights decay: a few steps at the start show nothing."""

from typing import Any

from laptime.instrument.device import SMALLEST_NORMAL as SMALLEST_NORMAL
from laptime.instrument.device import denormal_share
from laptime.tuning.optimization import LoopProfile, Optimization, Options

MATTERS = 1e-4  # share of elements from which on it is worth a try


def look(hooks: Any) -> dict[str, float]:
    """The share of denormal elements among parameters, gradients and optimizer state."""
    parameters = [parameter for model in hooks.models for parameter in model.parameters()]
    return {"share": denormal_share(parameters, hooks.optimizers)}


def why_not(loop_profile: LoopProfile) -> str:
    has_some = loop_profile.detail("flush_denormal", "share", 0.0) >= MATTERS
    return (
        "" if has_some else "parameters, gradients and optimizer state have no denormal numbers to speak of"
    )


def bound(loop_profile: LoopProfile, options: Options) -> float:
    """The part of computing that goes into denormals, each a hundred times as slow as another number."""
    share = float(loop_profile.detail("flush_denormal", "share", 0.0))
    part = 100 * share / (100 * share + 1 - share)
    return part * loop_profile.share("forward", "backward", "optimizer")


def apply(loop: Any, options: Options) -> None:
    """The switch of this thread, before torch's other threads are made: they inherit it."""

    def switch() -> Any:
        import torch

        if not torch.set_flush_denormal(True):
            loop.refuse("this CPU cannot flush denormal numbers")
        return lambda: torch.set_flush_denormal(False)

    loop.process(switch)


OPTIMIZATION = Optimization(
    title="denormal numbers count as zero",
    numerics="reassociated",
    saves=bound,
    needs=frozenset({"cpu"}),
    prior=0.3,
    why_not=why_not,
    look=look,
    example={"share": 0.1},
    apply=apply,
    edit=lambda script, options: script.at_start("torch.set_flush_denormal(True)", "import torch"),
)
