"""Names for `loop_profile.LoopProfile.facts`: what the machine can, what the loop is made of and does.

`instrument.device` has versions and knobs of the same process."""

import os
import platform
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from laptime.instrument import device as instrumented
from laptime.kit import system_files
from laptime.tuning.trial.source_sites import walk_wrapped

OPTIMIZERS = {"SGD": "sgd", "Adam": "adam", "AdamW": "adamw", "Adagrad": "adagrad"}
KINDS = {
    "conv": ("Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"),
    "attention": ("MultiheadAttention",),
    "batchnorm": ("BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "SyncBatchNorm"),
    "dropout": ("Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout"),
    "linear": ("Linear", "Bilinear"),
    "embedding": ("Embedding", "EmbeddingBag"),
}
"""Facts by classes of torch.nn; their subclasses count, too."""
WRAPPERS = {"OptimizedModule": "compiled", "DistributedDataParallel": "ddp", "DataParallel": "data_parallel"}


# The machine.


def cpus(root: str = "/") -> int:
    """CPUs that this process may use: its affinity, and the quota of its control group."""
    affinity = getattr(os, "sched_getaffinity", None)
    count = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
    quota = system_files.cpu_quota(root)
    return max(1, min(count, int(quota + 0.5))) if quota is not None else count


def memory(root: str = "/") -> int | None:
    """Free bytes of RAM: the machine's, within the limit of the control group. None if unknown."""
    of_machine = system_files.size(Path(root) / "proc/meminfo", "MemAvailable")
    free = (of_machine, system_files.memory_headroom(root))
    return min((value for value in free if value is not None), default=None)


def shm() -> int | None:
    """Free bytes of /dev/shm, where loader workers put their batches; None without one."""
    try:
        shared = os.statvfs("/dev/shm")  # noqa: S108, not written
    except OSError:
        return None
    return shared.f_bavail * shared.f_frsize


def compiler() -> str | None:
    """Path of the C++ compiler that torch.compile would use; None without one."""
    candidates = (os.environ.get("CXX"), "g++", "clang++", "c++")
    return next((path for name in candidates if name and (path := shutil.which(name))), None)


def fast(kind: str) -> set[str]:
    """Return the precisions that a device computes fast: bf16, fp16, tf32, amx."""
    import torch

    if kind == "cpu":
        return _fast_cpu()
    if kind == "cuda" and not torch.version.hip:
        return by_capability(torch.cuda.get_device_capability())
    return {"bf16", "fp16"} if kind in ("cuda", "xpu") else {"fp16"} if kind == "mps" else set()


def by_capability(capability: tuple[int, int]) -> set[str]:
    """CUDA: tensor cores for fp16 from 7.0 (Volta), for bf16 and TF32 from 8.0 (Ampere).

    Source: CUDA C++ Programming Guide, table "Feature Support per Compute Capability".
    """
    if capability >= (8, 0):
        return {"fp16", "bf16", "tf32"}
    return {"fp16"} if capability >= (7, 0) else set()


def _fast_cpu() -> set[str]:
    """Read the processor's flags; elsewhere than on Linux, ask torch."""
    import torch

    info = Path("/proc/cpuinfo")
    flags = set((system_files.field(info, "flags") or system_files.field(info, "Features") or "").split())
    cpu: Any = torch.cpu
    avx = getattr(cpu, "_is_avx512_bf16_supported", lambda: False)
    amx = getattr(cpu, "_is_amx_tile_supported", lambda: False)
    has_amx = "amx_bf16" in flags or (not flags and amx())
    is_arm = platform.machine() in ("aarch64", "arm64")
    conditions = {
        "amx": has_amx,
        "bf16": has_amx or "avx512_bf16" in flags or (not flags and avx()) or (is_arm and "bf16" in flags),
        "fp16": "amx_fp16" in flags,
    }
    return {fact for fact, holds in conditions.items() if holds}


# The loop.


def of_models(models: list[Any]) -> set[str]:
    """Return facts about the trained models: their parts, and what is done to them."""
    import torch

    nn: Any = torch.nn
    modules = [module for model in models for module in model.modules()]
    parameters = [parameter for model in models for parameter in model.parameters()]
    conditions = {
        fact: any(isinstance(module, tuple(getattr(nn, name) for name in names)) for module in modules)
        for fact, names in KINDS.items()
    }
    conditions["attention"] |= any("attention" in type(module).__name__.lower() for module in modules)
    bases = {
        (base.__module__.partition(".")[0], base.__name__) for each in modules for base in type(each).__mro__
    }
    # A convolution's weight whose strides say it, and could say otherwise.
    weights = [each for each in parameters if each.dim() == 4 and not each.is_contiguous()]
    conditions |= {
        "frozen_parameters": any(not parameter.requires_grad for parameter in parameters),
        "channels_last": any(weight.is_contiguous(memory_format=torch.channels_last) for weight in weights),
        "several_models": len(models) > 1,
        "checkpointing": any(getattr(module, "gradient_checkpointing", False) is True for module in modules),
        "hf_model": ("transformers", "PreTrainedModel") in bases,
        "blocks": any(_has_blocks(module) for module in modules),
    }
    facts = {fact for fact, holds in conditions.items() if holds}
    return facts.union(*(_wrappers(model) for model in models))


def _wrappers(model: Any) -> set[str]:
    """compiled, ddp, data_parallel, from the model and what it wraps."""
    layers = list(walk_wrapped(model))
    facts = {WRAPPERS[type(layer).__name__] for layer in layers if type(layer).__name__ in WRAPPERS}
    if any(getattr(layer, "find_unused_parameters", False) for layer in layers):
        facts.add("find_unused")
    if any(getattr(module, "_compiled_call_impl", None) is not None for module in model.modules()):
        facts.add("compiled")
    return facts


def _has_blocks(module: Any) -> bool:
    """A list of two or more children of one class that has children itself: layers of a transformer."""
    if type(module).__name__ not in ("Sequential", "ModuleList"):
        return False
    kinds = [type(child) for child in module.children() if next(child.children(), None) is not None]
    return any(kinds.count(kind) >= 2 for kind in kinds)


def of_optimizers(optimizers: list[Any]) -> set[str]:
    """Classes and switches of the optimizers."""
    facts = {"several_optimizers"} if len(optimizers) > 1 else set()
    facts |= {OPTIMIZERS[name] for each in optimizers if (name := type(each).__name__) in OPTIMIZERS}
    for group in (group for optimizer in optimizers for group in optimizer.param_groups):
        facts |= {name for name in ("fused", "foreach", "capturable") if group.get(name)}
        facts |= {"scheduler"} if "initial_lr" in group else set()
    return facts


def of_loader(loader: Any) -> set[str]:
    """Return how the training loader is made."""
    from torch.utils.data import IterableDataset, _utils
    from torch.utils.data import sampler as samplers
    from torch.utils.data.distributed import DistributedSampler

    iterable = isinstance(loader.dataset, IterableDataset)
    facts = {"loader", "iterable_dataset" if iterable else "map_dataset"}
    torchs = (samplers.RandomSampler, samplers.SequentialSampler, DistributedSampler)
    if not iterable:
        if loader.batch_sampler is not None and type(loader.batch_sampler) is not samplers.BatchSampler:
            facts.add("custom_batch_sampler")
        elif type(loader.sampler) not in torchs:
            facts.add("custom_sampler")
    defaults = (_utils.collate.default_collate, _utils.collate.default_convert)
    if loader.collate_fn not in defaults:
        facts.add("custom_collate")
    switches = {"num_workers": "workers", "pin_memory": "pinned", "persistent_workers": "persistent"}
    return facts | {fact for name, fact in switches.items() if getattr(loader, name)}


def of_torch() -> set[str]:
    """Torch's switches."""
    import torch

    backends: Any = torch.backends
    facts = {"tf32_on"} if instrumented.float32_precision() in ("high", "medium") else set()
    return facts | ({"cudnn_benchmark_on"} if backends.cudnn.benchmark else set())


def device_of(models: Iterable[Any]) -> str:
    """The device of the first trained parameter: cpu, cuda:0; cpu without one."""
    for model in models:
        for parameter in model.parameters():
            return str(parameter.device)
    return "cpu"


def peak(kind: str) -> int | None:
    """Peak bytes of the device's allocator, or of this process."""
    import torch

    if kind in ("cuda", "xpu"):
        return int(getattr(torch, kind).max_memory_allocated())
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def has_room(kind: str, limit: int | None) -> bool:
    """Whether twice the memory of now would fit: of the device, or of this process under its limit."""
    used = peak(kind) or 0
    if kind == "cuda":
        import torch

        free, _ = torch.cuda.mem_get_info()
        room = free + torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
        return used < room and (limit is None or 2 * used < limit)
    available = memory()
    return (available is None or used < 0.8 * available) and (limit is None or 2 * used < limit)


def page_faults() -> int:
    """Minor page faults of this process so far."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def sum_compiled() -> int:
    """Return how much torch.compile has compiled so far; 0 when it is not used."""
    compiler: Any = sys.modules.get("torch._dynamo.utils")
    return int(sum(compiler.counters["stats"].values())) if compiler is not None else 0


def is_autocast() -> bool:
    """Whether autocast is on here, for any device."""
    import torch

    return any(torch.is_autocast_enabled(kind) for kind in ("cpu", "cuda", "xpu"))
