"""Versions, devices and knobs of the torch that a script has imported."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

_PACKAGES = ("torchvision", "timm", "transformers", "accelerate", "lightning", "pytorch_lightning")


def libraries() -> dict[str, str]:
    """Versions of torch, its device libraries, and of the frameworks around it that are loaded."""
    import sys

    import torch

    versions = {"torch": str(torch.__version__)}
    if _is_used(torch.cuda):
        if torch.version.cuda:
            versions["cuda"] = torch.version.cuda
        if torch.version.hip:
            versions["hip"] = torch.version.hip
    for package in _PACKAGES:
        version = getattr(sys.modules.get(package), "__version__", None)
        if isinstance(version, str):
            versions[package] = version
    return versions


def devices() -> list[dict[str, Any]]:
    """The accelerators that the script has started, as fields of `records.environment.Device`."""
    import torch

    if not _is_used(torch.cuda):
        return []
    gpus = []
    for index in range(torch.cuda.device_count()):
        with suppress(RuntimeError):
            gpu = torch.cuda.get_device_properties(index)
            gpus.append({"name": f"cuda:{index}", "model": gpu.name, "memory": gpu.total_memory})
    return gpus


def knobs() -> dict[str, Any]:
    """Effective settings of torch that change speed."""
    import torch

    backends: Any = torch.backends
    settings: dict[str, Any] = {
        "torch.num_threads": torch.get_num_threads(),
        "torch.num_interop_threads": torch.get_num_interop_threads(),
        "torch.float32_matmul_precision": torch.get_float32_matmul_precision(),
        "torch.deterministic_algorithms": torch.are_deterministic_algorithms_enabled(),
    }
    if _is_used(torch.cuda):
        settings["cudnn.benchmark"] = backends.cudnn.benchmark
        settings["cudnn.deterministic"] = backends.cudnn.deterministic
    return settings


def _is_used(module: Any) -> bool:
    """Whether the script itself has started this kind of device."""
    return bool(module.is_initialized())
