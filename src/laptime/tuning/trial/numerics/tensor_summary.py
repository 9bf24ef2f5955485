"""Tensors of a training step by name, and a summary of each: values, norm, a checksum of all its bits.

Names are the same whatever stands around a model: `_orig_mod.` of torch.compile and `module.` of
DistributedDataParallel and DataParallel are taken off.
Up to LIMIT elements are kept whole; above, every tensor of more than SMALL elements is sampled by a fixed
stride, the same in every process. Norms, counts of non-finite values and checksums are always of the whole.
"""

import functools
import math
from collections.abc import Iterator
from typing import Any

LIMIT = 20_000_000  # elements that one capture keeps in all: 80 MB in single precision
SMALL = 4096  # tensors up to this size are always whole
_CHUNK = 1 << 20
_WRAPPERS = ("OptimizedModule", "DistributedDataParallel", "DataParallel", "FullyShardedDataParallel")
_MIX = 0x1E3779B97F4A7C15
"""Odd factor of the weights of a checksum: 2^64 over the golden ratio, made to fit a signed number."""


def unwrap(model: Any) -> Any:
    """The user's own module inside what torch has put around it."""
    while type(model).__name__ in _WRAPPERS:
        inner = getattr(model, "_orig_mod", None)
        model = inner if inner is not None else model.module
    return model


def name_all(models: list[Any], optimizers: list[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parameters and buffers by name; of several models with `0.`, `1.` in front, in their order.

    Parameters that only an optimizer knows are called `optimizer0.group0.3`."""
    parameters: dict[str, Any] = {}
    buffers: dict[str, Any] = {}
    identities: set[int] = set()
    inner: list[Any] = []
    for model in models:
        module = unwrap(model)
        if all(module is not other for other in inner):
            inner.append(module)

    def add(into: dict[str, Any], name: str, tensor: Any) -> None:
        if id(tensor) not in identities:
            identities.add(id(tensor))
            into[name] = tensor

    for number, model in enumerate(inner):
        prefix = f"{number}." if len(inner) > 1 else ""
        for tensors, into in ((model.named_parameters(), parameters), (model.named_buffers(), buffers)):
            for name, tensor in tensors:
                add(into, prefix + name.replace("_orig_mod.", ""), tensor)
    for number, optimizer in enumerate(optimizers):
        for group, members in enumerate(optimizer.param_groups):
            for index, tensor in enumerate(members["params"]):
                add(parameters, f"optimizer{number}.group{group}.{index}", tensor)
    return parameters, buffers


def state_items(
    optimizers: list[Any], parameters: dict[str, Any]
) -> Iterator[tuple[str, dict[str, Any], str, Any]]:
    """Optimizer state: `NAME OF PARAMETER/KEY`, the parameter's own state, the key in it, the value."""
    names = {id(tensor): name for name, tensor in parameters.items()}
    for optimizer in optimizers:
        for parameter, state in optimizer.state.items():
            for key, value in list(state.items()) if isinstance(state, dict) else ():
                yield f"{names.get(id(parameter), '?')}/{key}", state, key, value


def is_number(value: Any) -> bool:
    """Whether a state is a plain number, as step counts can be."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def states(optimizers: list[Any], parameters: dict[str, Any]) -> dict[str, Any]:
    """Optimizer state by name, tensors; plain numbers are made into one."""
    import torch

    return {
        name: value if isinstance(value, torch.Tensor) else torch.tensor(float(value))
        for name, _, _, value in state_items(optimizers, parameters)
        if isinstance(value, torch.Tensor) or is_number(value)
    }


def groups(
    parameters: dict[str, Any], buffers: dict[str, Any], optimizers: list[Any]
) -> dict[str, dict[str, Any]]:
    """All values of a training by group and name: parameters, buffers, optimizer."""
    return {"parameters": parameters, "buffers": buffers, "optimizer": states(optimizers, parameters)}


def stride(parameters: dict[str, Any], buffers: dict[str, Any], steps: int) -> int:
    """Every how many-th element of a large tensor is kept.

    Gradients, parameters and two states (Adam's) a step, and the parameters of the start."""
    trained: int = sum(tensor.numel() for tensor in parameters.values())
    others: int = sum(tensor.numel() for tensor in buffers.values())
    return max(1, math.ceil((trained * (4 * steps + 1) + others * steps) / LIMIT))


def summary(tensor: Any, every: int) -> dict[str, Any]:
    """Summarize a tensor in plain values and one tensor: safe to load with weights_only. Returns
    values (on the CPU, strided), elements, dtype, norm (of the whole, in double precision), bad (non-finite
    elements), bits (checksum of the whole; -0.0 counts as 0.0), point (floating)."""
    import torch

    flat = _flat(tensor)
    floating = flat.is_floating_point()
    if floating:
        flat = flat + 0.0
    chosen = flat if every == 1 or flat.numel() <= SMALL else flat[::every]
    norms = [float(torch.linalg.vector_norm(part.double())) for part in flat.split(_CHUNK)]
    norm = norms[0] if len(norms) == 1 else math.sqrt(sum(norm**2 for norm in norms))
    return {
        "values": chosen.cpu().clone(),
        "elements": flat.numel(),
        "dtype": str(tensor.dtype).removeprefix("torch."),
        "norm": norm,
        "bad": 0 if math.isfinite(norm) or not floating else int((~torch.isfinite(flat)).sum()),
        "bits": checksum(flat),
        "point": floating,
    }


def summaries(tensors: dict[str, Any], every: int) -> dict[str, dict[str, Any]]:
    """The summary of each tensor, by name."""
    return {name: summary(tensor, every) for name, tensor in tensors.items()}


def _flat(tensor: Any) -> Any:
    """All elements in logical order, whatever the memory format; of a sharded tensor its own shard."""
    import torch

    local = tensor.detach()
    local = local.to_local() if hasattr(local, "to_local") else local
    local = local.to_dense() if local.is_sparse else local
    local = local.dequantize() if local.is_quantized else local
    flat = (torch.view_as_real(local) if local.is_complex() else local).reshape(-1)
    return flat.cpu() if flat.device.type not in ("cpu", "cuda") else flat


def checksum(flat: Any) -> int:
    """A number that depends on every bit and its place: the weighted sum of all words modulo 2^64."""
    import torch

    kinds = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    words = flat.contiguous()
    words = words.to(torch.int8) if words.dtype == torch.bool else words
    size = words.element_size()
    if size < 8 and words.numel() * size % 8 == 0:
        words = words.clone() if words.storage_offset() * size % 8 else words
        words = words.view(torch.int64)  # whole words: an eighth of the work for bytes
    else:
        words = words.view(kinds[size])
    weights = _weights(str(words.device))
    total = 0
    for number, part in enumerate(words.split(_CHUNK)):
        total += (number * _MIX | 1) * int((part.to(torch.int64) * weights[: part.numel()]).sum())
    return int(total % (1 << 63))


@functools.lru_cache(maxsize=4)
def _weights(device: str) -> Any:
    """Odd numbers by place, of a whole chunk."""
    import torch

    return torch.arange(_CHUNK, device=device, dtype=torch.int64) * _MIX | 1


def norm_of_gradients(parameters: list[Any]) -> float:
    """Norm of all gradients together; 0 without any."""
    import torch

    gradients = [_flat(parameter.grad) for parameter in parameters if parameter.grad is not None]
    return math.sqrt(sum(float(torch.linalg.vector_norm(each.float()).double()) ** 2 for each in gradients))
