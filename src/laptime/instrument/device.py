"""The torch that a script has imported and its accelerator, asked only once the script has started it."""

import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import Any


class Device:
    """Tells the time on the device, and waits for it.

    Steps are timed by events in the device's own queue: nothing is waited for, so the script keeps running
    ahead of its device as it would without us, and a step is as long as the device takes for it."""

    @property
    def name(self) -> str:
        """cuda or xpu once it has been started, else cpu."""
        import torch

        for kind in ("cuda", "xpu"):
            module = getattr(torch, kind, None)
            if module is not None and module.is_initialized():
                return kind
        return "cpu"

    @property
    def clock(self) -> str:
        return "host" if self.name == "cpu" else f"{self.name} events"

    def mark(self) -> Any:
        """An event in the device's queue, None if only the host has a clock."""
        import torch

        if (kind := self.name) == "cpu":
            return None
        event = getattr(torch, kind).Event(enable_timing=True)
        event.record()
        return event

    def between(self, begin: Any, end: Any) -> int | None:
        """Nanoseconds between two marks that were passed; None when one is missing."""
        if begin is None or end is None:
            return None
        end.synchronize()
        return round(float(begin.elapsed_time(end)) * 1e6)

    def wait(self) -> None:
        """Return when all that was started on the device is done."""
        import torch

        if (kind := self.name) != "cpu":
            getattr(torch, kind).synchronize()


_PACKAGES = ("torchvision", "timm", "transformers", "accelerate", "lightning", "pytorch_lightning")


def libraries() -> dict[str, str]:
    """Versions of torch, its device libraries, and of the frameworks around it that are loaded."""
    import torch

    versions = {"torch": str(torch.__version__)}
    if Device().name == "cuda":
        both = {"cuda": torch.version.cuda, "hip": torch.version.hip}
        versions |= {name: version for name, version in both.items() if version}
    for package in _PACKAGES:
        version = getattr(sys.modules.get(package), "__version__", None)
        if isinstance(version, str):
            versions[package] = version
    return versions


def devices() -> list[dict[str, Any]]:
    """The accelerators that the script has started, as fields of `records.environment.Device`."""
    import torch

    gpus = []
    for index in range(torch.cuda.device_count() if Device().name == "cuda" else 0):
        with suppress(RuntimeError):
            gpu = torch.cuda.get_device_properties(index)
            gpus.append({"name": f"cuda:{index}", "model": gpu.name, "memory": gpu.total_memory})
    return gpus


def float32_precision() -> str:
    """Of float32 products: "highest", "high", "medium"; "mixed" if torch finds its settings in conflict."""
    import torch

    with suppress(RuntimeError):
        return torch.get_float32_matmul_precision()
    return "mixed"


def knobs(device: str = "") -> dict[str, Any]:
    """Effective settings of torch that change speed. device: its type; "" is the one that the script uses."""
    import torch

    cudnn: Any = torch.backends.cudnn
    settings: dict[str, Any] = {
        "torch.num_threads": torch.get_num_threads(),
        "torch.num_interop_threads": torch.get_num_interop_threads(),
        "torch.float32_matmul_precision": float32_precision(),
        "torch.deterministic_algorithms": torch.are_deterministic_algorithms_enabled(),
    }
    if (device or Device().name) == "cuda":
        settings |= {"cudnn.benchmark": cudnn.benchmark, "cudnn.deterministic": cudnn.deterministic}
    return settings


SMALLEST_NORMAL = 2.0**-126  # of float32 and bfloat16


def denormal_share(parameters: Iterable[Any], optimizers: Iterable[Any]) -> float:
    """Share of the numbers below the normal range among parameters, gradients and optimizers' state."""
    import torch

    kept = list(parameters)
    states = (state for each in optimizers for state in each.state.values() if isinstance(state, dict))
    values = [value for state in states for value in state.values()]
    tensors = [*kept, *(parameter.grad for parameter in kept), *filter(torch.is_tensor, values)]
    denormal, elements = 0, 0
    for tensor in tensors:
        if tensor is not None and tensor.is_floating_point() and not tensor.is_sparse:
            tiny = tensor.detach().abs()
            denormal += int(((tiny > 0) & (tiny < SMALLEST_NORMAL)).sum())
            elements += tensor.numel()
    return denormal / elements if elements else 0.0
