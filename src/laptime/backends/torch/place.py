"""Where a model runs: devices, how to wait for them, versions and knobs; what torch raises, as our errors."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal

from laptime.backends._shared import call_error, environment, no_device, no_memory, torch
from laptime.instrument import device as instrumented
from laptime.kit.errors import LaptimeError, Unavailable
from laptime.probes.machine import find_version
from laptime.records.environment import Device

_ACCELERATORS = ("cuda", "mps", "xpu")
# fmt: off
_ENVIRONMENT = (
    "OMP_", "KMP_", "GOMP_", "MKL_", "DNNL_", "ONEDNN_", "OPENBLAS_", "ATEN_CPU_CAPABILITY", "MALLOC_",
    "LD_PRELOAD", "PYTORCH_", "TORCHINDUCTOR_", "CUDA_VISIBLE_DEVICES", "CUDA_LAUNCH_BLOCKING",
    "CUDA_MODULE_LOADING", "CUDA_DEVICE_", "CUBLAS_", "CUDNN_", "NVIDIA_TF32_OVERRIDE",
)
# fmt: on


def present() -> list[str]:
    """Names of all devices that torch sees, accelerators first: `["cuda:0", "cpu"]`."""
    kinds = []
    for kind in _ACCELERATORS:
        module = getattr(torch, kind, None)
        if module is not None and module.is_available():
            count = module.device_count()
            kinds += [kind] if kind == "mps" else [f"{kind}:{index}" for index in range(count)]
    return [*kinds, "cpu"]


def resolve(name: str) -> torch.device:
    """The device of a name; "auto" is the first accelerator, else the CPU. `cuda` means `cuda:0`.
    Raises Unavailable: it is not there; those that are there are named."""
    there = present()
    if name == "auto":
        return torch.device(there[0])
    full = f"{name}:0" if name in ("cuda", "xpu") else name
    full = full.removesuffix(":0") if full.startswith(("cpu", "mps")) else full
    if full in there:
        return torch.device(full)
    raise no_device(name, f"torch {torch.__version__}", there)


def waiter(device: torch.device) -> Callable[[], None]:
    """A function that returns when everything started on this very device is done."""
    if device.type == "cpu":
        return lambda: None  # it is done when the call returns
    if device.type == "mps":
        return torch.mps.synchronize
    module: Any = getattr(torch, device.type, None) or torch.accelerator
    return partial(module.synchronize, device)


def describe(device: torch.device) -> list[Device]:
    """The device as torch names it, with what torch knows of it; the CPU when that is where models run."""
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        try:
            text = Path("/proc/driver/nvidia/version").read_text()
        except OSError:
            driver = None
        else:
            match = re.search(r"\b\d{3}\.\d+(?:\.\d+)?\b", text)
            driver = match[0] if match else None
        return [
            Device(
                name=str(device),
                model=properties.name,
                memory=properties.total_memory,
                driver=driver,
                details={
                    "compute_capability": f"{properties.major}.{properties.minor}",
                    "multiprocessors": properties.multi_processor_count,
                },
            )
        ]
    if device.type == "cpu":
        capability = torch.backends.cpu.get_cpu_capability()
        return [Device(name="cpu", model="CPU", details={"capability": capability})]
    return [Device(name=str(device), model=device.type)]


def libraries(device: torch.device, packages: tuple[str, ...] = ()) -> dict[str, str]:
    """Versions of torch, of the packages named, and of the libraries that do the work on this device."""
    numbers: dict[str, str] = {"torch": str(torch.__version__)}
    for package in packages:
        if version := find_version(package):
            numbers.setdefault(package, version)
    if device.type == "cuda":
        if torch.version.cuda:
            numbers["cuda"] = torch.version.cuda
        if torch.version.hip:
            numbers["hip"] = torch.version.hip
        if cudnn := torch.backends.cudnn.version():  # type: ignore[no-untyped-call, unused-ignore]
            numbers["cudnn"] = str(cudnn)
    if device.type == "cpu":
        build = torch.__config__.show()
        if onednn := re.search(r"MKL-DNN v([\d.]+)", build):
            numbers["onednn"] = onednn[1]
        if mkl := re.search(r"Math Kernel Library Version (\S+)", build):
            numbers["mkl"] = mkl[1]
    return numbers


def knobs(device: torch.device) -> dict[str, Any]:
    """Effective settings of torch that change speed or results, and the environment variables behind them."""
    backends: Any = torch.backends  # parts of it have no types
    settings = instrumented.knobs(device.type)
    settings["torch.mkldnn"] = backends.mkldnn.enabled and backends.mkldnn.is_available()
    if device.type == "cuda":
        settings["cudnn.enabled"] = backends.cudnn.enabled
        # torch refuses to tell a switch of the old kind once one of the new kind was set.
        with suppress(RuntimeError):
            settings["cudnn.allow_tf32"] = backends.cudnn.allow_tf32
        with suppress(RuntimeError):
            settings["cuda.matmul.allow_tf32"] = backends.cuda.matmul.allow_tf32
    return settings | environment(_ENVIRONMENT)


@contextmanager
def entered(device: torch.device, mode: AbstractContextManager[Any]) -> Iterator[None]:
    with mode, torch.cuda.device(device) if device.type == "cuda" else nullcontext():
        yield


# What torch raises. Only exhausted memory is OutOfMemory.


# Texts with which libraries say that memory is exhausted when they raise a plain RuntimeError.
_HOST = (
    "DefaultCPUAllocator: can't allocate memory",
    "DefaultCPUAllocator: not enough memory",
    "std::bad_alloc",
)
_DEVICE = (
    "CUDA out of memory",
    "CUDA error: out of memory",
    "CUDNN_STATUS_ALLOC_FAILED",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "MPS backend out of memory",
    "HIP out of memory",
    "XPU out of memory",
)
_ASKED, _LONGEST = re.compile(r"[Tt]ried to allocate ([\d.]+ ?(?:bytes|[KMGT]i?B))"), 300


def memory_exhausted(error: BaseException | None) -> Literal["host", "device"] | None:
    """Return which memory an exception says is exhausted; None when it says something else."""
    if error is None:
        return None
    if isinstance(error, MemoryError):
        return "host"
    # One class for all accelerators from torch 2.5 on; CUDA's own before.
    if isinstance(error, getattr(torch, "OutOfMemoryError", torch.cuda.OutOfMemoryError)):
        return "device"
    if isinstance(error, RuntimeError):
        text = str(error)
        if any(part in text for part in _HOST):
            return "host"
        if any(part in text for part in _DEVICE):
            return "device"
    return None


def translate(error: BaseException, *, doing: str, inputs: str = "") -> LaptimeError:
    """One of laptime's errors for whatever loading or calling a model raised; laptime's own come back as they
    are, unless memory is behind them. doing: the first line. inputs: in words, told when the model refuses
    them."""
    behind = _behind(error)
    which = memory_exhausted(behind)
    if which is not None:
        request = _ASKED.search(str(behind))
        return no_memory(doing, f"it asked for {request[1]} more" if request else _first_line(behind), which)
    if isinstance(error, LaptimeError):
        return error
    if "InvalidCxxCompiler" in f"{type(error).__name__} {error}":
        return Unavailable(
            f"{doing}: torch.compile needs a C++ compiler",
            why=_first_line(error),
            next="install g++, or leave --compile out",
        )
    line = _first_line(error)
    in_training = "more than 1 value per channel when training" in line  # a batch norm
    advice = "--option mode=eval   (the model was given in training mode)" if in_training else ""
    return call_error(doing, error, line, advice, inputs)


def _behind(error: BaseException) -> BaseException:
    """The exception that a UserCodeError, or a compiler, was raised from when memory is the reason."""
    cause: BaseException | None = error
    while cause is not None:
        if memory_exhausted(cause) is not None:
            return cause
        cause = cause.__cause__
    return error


def _first_line(error: BaseException) -> str:
    line = str(error).strip().partition("\n")[0] or type(error).__name__  # MemoryError often says nothing
    return line if len(line) <= _LONGEST else line[: _LONGEST - 4] + " ..."
