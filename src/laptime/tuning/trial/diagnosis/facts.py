"""Names for `loop_profile.LoopProfile.facts`: what the machine can, what the loop is made of and does.

`instrument.facts` has versions and knobs of the same process.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from laptime.tuning.trial.source_sites import unwrapped

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
CGROUP = Path("/sys/fs/cgroup")


# The machine.


def cpus(root: Path = CGROUP) -> int:
    """CPUs that this process may use: its affinity, and the quota of its control group (v1 and v2)."""
    affinity = getattr(os, "sched_getaffinity", None)
    count = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
    quota = _quota(root)
    return max(1, min(count, int(quota + 0.5))) if quota is not None else count


def _quota(root: Path) -> float | None:
    """CPUs' worth of time that the group gets; the least of those on the way to it."""
    found = []
    for folder in _groups(root, "cpu"):
        try:
            if (folder / "cpu.max").exists():
                quota, period = (folder / "cpu.max").read_text().split()[:2]
            else:
                quota = (folder / "cpu.cfs_quota_us").read_text()
                period = (folder / "cpu.cfs_period_us").read_text()
            if quota != "max" and int(quota) > 0:
                found.append(int(quota) / int(period))
        except (OSError, ValueError):
            continue
    return min(found, default=None)


def _groups(root: Path, controller: str) -> Iterator[Path]:
    """Folders of the process's control groups, from its own up to the root's."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        lines = []
    for line in [*lines, "0::/"]:
        _, names, path = line.split(":", 2)
        if names and controller not in names.split(","):
            continue
        top = root / controller if names else root
        if not names and not path.strip("/") and (root / controller).is_dir():
            yield root / controller
        folder = top / path.strip("/")
        while True:
            yield folder
            if folder == top or top not in folder.parents:
                break
            folder = folder.parent


def memory(root: Path = CGROUP) -> int | None:
    """Bytes of RAM that are free for us: the machine's, and those of the control group."""
    found = []
    for line in _lines("/proc/meminfo"):
        if line.startswith("MemAvailable:"):
            found.append(int(line.split()[1]) * 1024)
    for folder in _groups(root, "memory"):
        for most, used in (
            ("memory.max", "memory.current"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes"),
        ):
            try:
                found.append(int((folder / most).read_text()) - int((folder / used).read_text()))
            except (OSError, ValueError):
                continue
    return max(0, min(found)) if found else None


def shm() -> int | None:
    """Free bytes of /dev/shm, where loader workers put their batches; None without one."""
    try:
        found = os.statvfs("/dev/shm")  # noqa: S108, asked, not written
    except OSError:
        return None
    return found.f_bavail * found.f_frsize


def compiler() -> str | None:
    """Path of the C++ compiler that torch.compile would use; None without one."""
    return next(
        (
            path
            for name in (os.environ.get("CXX"), "g++", "clang++", "c++")
            if name
            if (path := shutil.which(name))
        ),
        None,
    )


def fast(kind: str) -> set[str]:
    """What a device computes fast: bf16, fp16, tf32, amx."""
    import torch

    if kind == "cpu":
        return _fast_cpu()
    if kind == "cuda":
        if torch.version.hip:
            return {"bf16", "fp16"}
        return by_capability(torch.cuda.get_device_capability())
    return {"bf16", "fp16"} if kind == "xpu" else {"fp16"} if kind == "mps" else set()


def by_capability(capability: tuple[int, int]) -> set[str]:
    """CUDA: tensor cores for fp16 from 7.0 (Volta), for bf16 and TF32 from 8.0 (Ampere).

    Source: CUDA C++ Programming Guide, table "Feature Support per Compute Capability".
    """
    found = {"fp16"} if capability >= (7, 0) else set()
    return found | {"bf16", "tf32"} if capability >= (8, 0) else found


def _fast_cpu() -> set[str]:
    """From the processor's flags; elsewhere than on Linux, from torch."""
    import torch

    flags: set[str] = set()
    for line in _lines("/proc/cpuinfo"):
        if line.startswith(("flags", "Features")):
            flags = set(line.partition(":")[2].split())
            break
    asked: Any = torch.cpu
    avx = getattr(asked, "_is_avx512_bf16_supported", lambda: False)
    amx = getattr(asked, "_is_amx_tile_supported", lambda: False)
    found: set[str] = set()
    if "amx_bf16" in flags or (not flags and amx()):
        found |= {"bf16", "amx"}
    if "avx512_bf16" in flags or (not flags and avx()):
        found.add("bf16")
    if "amx_fp16" in flags:
        found.add("fp16")
    if platform.machine() in ("aarch64", "arm64") and "bf16" in flags:
        found.add("bf16")
    return found


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(errors="replace").splitlines()
    except OSError:
        return []


# The loop.


def of_models(models: list[Any]) -> set[str]:
    """What the trained models are made of, and what is done to them."""
    import torch

    nn: Any = torch.nn
    found: set[str] = set()
    parts = [each for model in models for each in model.modules()]
    for fact, names in KINDS.items():
        kinds = tuple(getattr(nn, name) for name in names if hasattr(nn, name))
        if any(isinstance(each, kinds) for each in parts):
            found.add(fact)
    if any("attention" in type(each).__name__.lower() for each in parts):
        found.add("attention")
    for model in models:
        found |= _wrapped(model)
    parameters = [each for model in models for each in model.parameters()]
    if any(not each.requires_grad for each in parameters):
        found.add("frozen_parameters")
    if any(_is_channels_last(each) for each in parameters):
        found.add("channels_last")
    if len(models) > 1:
        found.add("several_models")
    if any(getattr(each, "gradient_checkpointing", False) is True for each in parts):
        found.add("checkpointing")
    if any(_is_of(each, "transformers", "PreTrainedModel") for each in parts):
        found.add("hf_model")
    if any(_has_blocks(each) for each in parts):
        found.add("blocks")
    return found


def _wrapped(model: Any) -> set[str]:
    """compiled, ddp, data_parallel, from the model and what it wraps."""
    found: set[str] = set()
    names = {"OptimizedModule": "compiled", "DistributedDataParallel": "ddp", "DataParallel": "data_parallel"}
    for each in unwrapped(model):
        found |= {fact for name, fact in names.items() if type(each).__name__ == name}
        if getattr(each, "find_unused_parameters", False):
            found.add("find_unused")
    if any(getattr(each, "_compiled_call_impl", None) is not None for each in model.modules()):
        found.add("compiled")
    return found


def _is_channels_last(parameter: Any) -> bool:
    """A convolution's weight whose strides say it, and could say otherwise."""
    import torch

    return bool(
        parameter.dim() == 4
        and parameter.is_contiguous(memory_format=torch.channels_last)
        and not parameter.is_contiguous()
    )


def _is_of(value: Any, package: str, name: str) -> bool:
    return any(
        kind.__name__ == name and kind.__module__.partition(".")[0] == package for kind in type(value).__mro__
    )


def _has_blocks(module: Any) -> bool:
    """A list of two or more children of one class that has children itself: layers of a transformer."""
    if type(module).__name__ not in ("Sequential", "ModuleList"):
        return False
    kinds = [type(child) for child in module.children() if next(child.children(), None) is not None]
    return any(kinds.count(kind) >= 2 for kind in kinds)


def of_optimizers(optimizers: list[Any]) -> set[str]:
    """Classes and switches of the optimizers."""
    found: set[str] = {"several_optimizers"} if len(optimizers) > 1 else set()
    for each in optimizers:
        found |= {fact for name, fact in OPTIMIZERS.items() if type(each).__name__ == name}
        for group in each.param_groups:
            found |= {name for name in ("fused", "foreach", "capturable") if group.get(name)}
            found |= {"scheduler"} if "initial_lr" in group else set()
    return found


def of_loader(loader: Any) -> set[str]:
    """How the training loader is made."""
    from torch.utils.data import IterableDataset, _utils
    from torch.utils.data import sampler as samplers
    from torch.utils.data.distributed import DistributedSampler

    iterable = isinstance(loader.dataset, IterableDataset)
    found = {"loader", "iterable_dataset" if iterable else "map_dataset"}
    own = (samplers.RandomSampler, samplers.SequentialSampler, DistributedSampler)
    if not iterable:
        if loader.batch_sampler is not None and type(loader.batch_sampler) is not samplers.BatchSampler:
            found.add("custom_batch_sampler")
        elif type(loader.sampler) not in own:
            found.add("custom_sampler")
    defaults = (_utils.collate.default_collate, _utils.collate.default_convert)
    if loader.collate_fn not in defaults:
        found.add("custom_collate")
    found |= {"workers"} if loader.num_workers else set()
    found |= {"pinned"} if loader.pin_memory else set()
    found |= {"persistent"} if loader.persistent_workers else set()
    return found


def of_torch() -> set[str]:
    """Torch's switches."""
    import torch

    backends: Any = torch.backends
    found = set()
    if torch.get_float32_matmul_precision() != "highest":
        found.add("tf32_on")
    if backends.cudnn.benchmark:
        found.add("cudnn_benchmark_on")
    return found


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


def compiled() -> int:
    """How much torch.compile has compiled so far; 0 when it is not used."""
    compiler: Any = sys.modules.get("torch._dynamo.utils")
    return int(sum(compiler.counters["stats"].values())) if compiler is not None else 0


def is_autocast() -> bool:
    """Whether autocast is on here, for any device."""
    import torch

    return any(torch.is_autocast_enabled(kind) for kind in ("cpu", "cuda", "xpu"))
