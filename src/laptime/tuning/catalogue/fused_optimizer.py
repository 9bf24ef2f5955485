"""One kernel for the whole optimizer step, in place of several for each parameter.

Source: torch.optim, `fused=True`. AdamW's step on one CPU thread was measured 2.9 times as fast as the one
over single tensors; parameters differed by 7e-9.
Lies when: the optimizer is a small part of the step."""

from typing import Any

from laptime.tuning.catalogue._trainers import by_trainer
from laptime.tuning.optimization import LoopProfile, Optimization, Options

FUSED = frozenset({"sgd", "adam", "adamw", "adagrad"})
"""Facts of optimizers that take `fused` (torch.optim, PyTorch 2.4 and later)."""


def why_not(loop_profile: LoopProfile) -> str:
    name = loop_profile.optimizer.get("class") or "the optimizer"
    has_fused = FUSED & loop_profile.facts
    return "" if has_fused else f"{name} has no fused version: SGD, Adam, AdamW and Adagrad have"


def apply(loop: Any, options: Options) -> None:
    def convert(optimizer: Any) -> Any:
        why = _why_not(optimizer)
        return loop.refuse(why) if why else switch(optimizer, fused=True, foreach=False)

    loop.optimizers(convert)


def edit(script: Any, options: Options) -> None:
    """An argument of the optimizer's call; of a trainer's, the fused AdamW, its default class."""
    if not by_trainer(script, hf={"optim": '"adamw_torch_fused"'}):
        script.set_arguments("optimizer", fused="True")
        script.remove_argument("optimizer", "foreach")


def switch(optimizer: Any, *, fused: bool, foreach: bool) -> Any:
    """Set both switches of every parameter group; gives the way back.

    Fused versions want the step count beside the parameters, the others on the host: it is moved."""
    before = [(group, group.get("fused"), group.get("foreach")) for group in optimizer.param_groups]
    for group in optimizer.param_groups:
        group["fused"], group["foreach"] = fused, foreach
        _move_step_counts(optimizer, group, fused=fused)

    def back() -> None:
        for group, was_fused, was_foreach in before:
            group["fused"], group["foreach"] = was_fused, was_foreach
            _move_step_counts(optimizer, group, fused=bool(was_fused))

    return back


def _why_not(optimizer: Any) -> str:
    """Say why this optimizer cannot be fused; "" when it can."""
    import torch

    name = type(optimizer).__name__
    if name.lower() not in FUSED or not type(optimizer).__module__.startswith("torch.optim"):
        return f"{name} has no fused version"
    for group in optimizer.param_groups:
        if "fused" not in group:
            return f"{name} of PyTorch {torch.__version__} has no fused version"
        if group.get("differentiable"):
            return "a differentiable optimizer cannot be fused"
        if not all(torch.is_floating_point(parameter) for parameter in group["params"]):
            return "a fused optimizer needs real floating-point parameters"
        if any(parameter.grad is not None and parameter.grad.is_sparse for parameter in group["params"]):
            return "a fused optimizer needs dense gradients"
    return ""


def _move_step_counts(optimizer: Any, group: dict[str, Any], *, fused: bool) -> None:
    import torch

    beside = fused or bool(group.get("capturable"))
    for parameter in group["params"]:
        count = optimizer.state.get(parameter, {}).get("step")
        if not torch.is_tensor(count):
            continue
        # As their `_get_scalar_dtype` has it: fused kernels read a float32 count.
        kind = torch.float32 if fused else count.dtype
        device = parameter.device if beside else "cpu"
        optimizer.state[parameter]["step"] = count.to(device=device, dtype=kind)


OPTIMIZATION = Optimization(
    title="fused optimizer",
    numerics="reassociated",
    # All but a tenth of the optimizer: parameters, gradients and state still have to be read and written.
    saves={"optimizer": 0.9},
    live=True,
    needs=frozenset({"!fused"}),
    gives=frozenset({"fused"}),
    conflicts=frozenset({"foreach_optimizer"}),
    prior=0.7,
    why_not=why_not,
    switch=r"(use_)?fused(_adamw?|_optim(izer)?)?|optim",
    switch_values=("adamw_torch_fused",),
    apply=apply,
    edit=edit,
)
