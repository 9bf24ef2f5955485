"""Which optimizers have fused and foreach versions, and the way between the versions of a living one."""

from typing import Any

FUSED = frozenset({"sgd", "adam", "adamw", "adagrad"})
"""Facts of optimizers that take `fused` (torch.optim, PyTorch 2.4 and later)."""


def switch(optimizer: Any, *, fused: bool, foreach: bool) -> Any:
    """Set both switches of every parameter group; gives the way back.

    Fused versions want the step count beside the parameters, the others on the host: it is moved.
    """
    before = [(group, group.get("fused"), group.get("foreach")) for group in optimizer.param_groups]
    for group in optimizer.param_groups:
        group["fused"], group["foreach"] = fused, foreach
        _move_step_counts(optimizer, group, fused=fused)

    def back() -> None:
        for group, was_fused, was_foreach in before:
            group["fused"], group["foreach"] = was_fused, was_foreach
            _move_step_counts(optimizer, group, fused=bool(was_fused))

    return back


def why_not_fused(optimizer: Any) -> str:
    """Why this optimizer cannot be fused; "" when it can."""
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
            return "a fused optimizer wants real floating-point parameters"
        if any(parameter.grad is not None and parameter.grad.is_sparse for parameter in group["params"]):
            return "a fused optimizer wants dense gradients"
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
