"""Versions, devices and knobs of the torch that a script has imported."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

_PACKAGES = ("torchvision", "timm", "transformers", "accelerate", "lightning", "pytorch_lightning")


def libraries() -> dict[str, str]:
    """Versions of torch, its device libraries, and of the frameworks around it that are loaded."""
    import sys

    import torch

    found = {"torch": str(torch.__version__)}
    if _is_used(torch.cuda):
        if torch.version.cuda:
            found["cuda"] = torch.version.cuda
        if torch.version.hip:
            found["hip"] = torch.version.hip
    for package in _PACKAGES:
        version = getattr(sys.modules.get(package), "__version__", None)
        if isinstance(version, str):
            found[package] = version
    return found


def devices() -> list[dict[str, Any]]:
    """The accelerators that the script has started, as fields of `records.environment.Device`."""
    import torch

    if not _is_used(torch.cuda):
        return []
    found = []
    for index in range(torch.cuda.device_count()):
        with suppress(RuntimeError):
            seen = torch.cuda.get_device_properties(index)
            found.append({"name": f"cuda:{index}", "model": seen.name, "memory": seen.total_memory})
    return found


def knobs() -> dict[str, Any]:
    """Effective settings of torch that change speed."""
    import torch

    backends: Any = torch.backends
    found: dict[str, Any] = {
        "torch.num_threads": torch.get_num_threads(),
        "torch.num_interop_threads": torch.get_num_interop_threads(),
        "torch.float32_matmul_precision": torch.get_float32_matmul_precision(),
        "torch.deterministic_algorithms": torch.are_deterministic_algorithms_enabled(),
    }
    if _is_used(torch.cuda):
        found["cudnn.benchmark"] = backends.cudnn.benchmark
        found["cudnn.deterministic"] = backends.cudnn.deterministic
    return found


def _is_used(module: Any) -> bool:
    """Whether the script itself has started this kind of device."""
    return bool(module.is_initialized())
