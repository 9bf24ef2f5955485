"""Measured peaks of a device: GEMM rate by dtype, and copy bandwidth.

    GEMM     FLOP/s = 2 * m * n * k / seconds, square matrices, c = a @ b into memory that is there
    copy     B/s    = 2 * bytes / seconds: bytes are read and written (as in STREAM, without write-allocate)

Each figure is the best of five samples: a peak is what the machine can do, and what disturbs it only takes
away. Sizes are doubled until one sample is long enough to be timed, or the time given is used up.

Lies when: other programs share the device; the time was too short for a size that fills the device
(`size` in the result tells).

What torch sees of this machine: devices, versions, knobs, and what waiting for each device costs."""

from __future__ import annotations

import mmap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import msgspec

from laptime.backends._shared import torch
from laptime.backends.torch import place
from laptime.backends.torch.place import memory_exhausted
from laptime.instrument.device import float32_precision
from laptime.kit.clock import SystemClock
from laptime.measure.loop import seconds_of
from laptime.measure.protocol import PeakWork
from laptime.probes import peaks as ceilings

SAMPLES = 5
_FIRST = 512  # rows of the first matrices
_LARGEST = 16384
_LONG_ENOUGH = 0.02  # seconds of one GEMM from which on larger matrices gain nothing
_SHORTEST_SAMPLE = 0.01  # calls are repeated until one sample is so long
_LONG_CALL = 4e-3  # seconds of a product between a model's blocks: just long enough to fill the device
_SIZES = (512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192)
_COPY_BYTES = {"cpu": 2**28}  # beyond any last-level cache but the largest; accelerators take 1 GiB
_COPY_BYTES_ACCELERATOR = 2**30


def peaks(device: str, dtypes: list[str], seconds: float) -> list[dict[str, Any]]:
    """Measured peaks of a device, in the order: each dtype, then copy; every one gets an equal share of the
    seconds.

    device: as frameworks name it; "auto" takes the first accelerator. dtypes: "float32", "bfloat16",
    "float16", "float64"; "tf32" is float32 with TF32 allowed (CUDA).
    Returns: Dicts with kind ("gemm" or "copy"), device, dtype, value, unit ("FLOP/s" or "B/s"), size (rows of
    the matrices, or bytes copied), seconds (of one call, the best), samples (the same, of each), formula. A
    dtype that the device cannot multiply has value None and a reason."""
    where = place.resolve(device)
    share = seconds / (len(dtypes) + 1)
    rows = [_gemm(where, dtype, share) for dtype in dtypes]
    return [*rows, _copy(where, share)]


def work_of_model(device: torch.device, dtype: str, *, size: int | None = None) -> PeakWork:
    """The product that shows what a model in this dtype could reach at best here. size: rows of the matrices;
    None finds those whose product takes `_LONG_CALL` seconds.

    Convolutions and products of float32 on CUDA use TF32 if torch allows it; the peak is then
    that of TF32, or a healthy model would look faster than its hardware.
    Raises RuntimeError: the device cannot multiply in this dtype, or has no memory for it."""
    dtypes = [dtype]
    if device.type == "cuda" and dtype == "float32" and torch.cuda.get_device_capability(device) >= (8, 0):
        precise = float32_precision() == "highest"
        if torch.backends.cudnn.allow_tf32 or not precise:
            dtypes.append("tf32")
    for rows in _SIZES if size is None else (size,):
        work = _product(device, dtypes[-1], rows)
        if size is None and min(seconds_of(work), seconds_of(work)) >= _LONG_CALL:
            break
    limit = ceilings.on_paper(place.describe(device)[0], dtypes)
    return replace(work, facts={**work.facts, "limit": limit})


def _product(device: torch.device, dtype: str, size: int) -> PeakWork:
    import torch

    kind = torch.float32 if dtype == "tf32" else getattr(torch, dtype)
    # Numbers of our own: in the Python API the default generator is the user's.
    generator = torch.Generator(device).manual_seed(0)
    with torch.inference_mode():
        a, b, out = (_matrix(device, kind, size) for _ in range(3))
        for matrix in (a, b):
            matrix.uniform_(-1, 1, generator=generator)

    def call() -> None:
        with _products_in(dtype), torch.inference_mode():
            torch.mm(a, b, out=out)

    return PeakWork(
        call=call,
        sync=place.waiter(device),
        flops=2.0 * size**3,
        facts={"dtype": dtype, "source": f"of the measured {dtype} GEMM peak", "size": size},
        synchronous=device.type == "cpu",
    )


def _matrix(device: torch.device, kind: torch.dtype, size: int) -> torch.Tensor:
    """On the CPU in memory of its own: glibc's allocator learns from every large block that is freed, and
    would serve the model's calls another way afterwards (docs/decisions/0007-batch-sizes-apart.md)."""
    if device.type != "cpu":
        return torch.empty(size, size, device=device, dtype=kind)
    memory = mmap.mmap(-1, size * size * kind.itemsize)
    return torch.frombuffer(memory, dtype=kind).view(size, size)


def _gemm(device: torch.device, dtype: str, seconds: float) -> dict[str, Any]:
    import torch

    row: dict[str, Any] = {
        "kind": "gemm",
        "device": str(device),
        "dtype": dtype,
        "unit": "FLOP/s",
        "formula": "2*m*n*k / s",
        "value": None,
    }
    if dtype == "tf32" and device.type != "cuda":
        return {**row, "reason": "TF32 is a mode of NVIDIA GPUs"}
    kind = torch.float32 if dtype == "tf32" else getattr(torch, dtype)
    try:
        with _products_in(dtype), torch.inference_mode():
            return {**row, **_largest_gemm(device, kind, seconds)}
    except (RuntimeError, NotImplementedError) as error:
        return {**row, "reason": str(error).partition("\n")[0]}


@contextmanager
def _products_in(dtype: str) -> Iterator[None]:
    """Products of float32 in IEEE float32, or in TF32 on CUDA. Switches that are mixed stay as they are."""
    before = float32_precision()
    if before == "mixed":
        yield
        return
    torch.set_float32_matmul_precision("high" if dtype == "tf32" else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def _largest_gemm(device: torch.device, dtype: torch.dtype, seconds: float) -> dict[str, Any]:
    import torch

    sync = place.waiter(device)
    deadline = SystemClock.now() + seconds
    best: dict[str, Any] = {}
    size = _FIRST
    while size <= _LARGEST:
        try:
            # Numbers of our own: in the Python API the default generator is the user's.
            generator = torch.Generator(device).manual_seed(0)
            a, b = (torch.randn(size, size, device=device, generator=generator).to(dtype) for _ in range(2))
            out = torch.empty(size, size, device=device, dtype=dtype)
        except (RuntimeError, MemoryError) as error:
            if memory_exhausted(error) and best:
                break
            raise
        timed = best_of(lambda a=a, b=b, out=out: torch.mm(a, b, out=out), sync, deadline=deadline)  # type: ignore[misc]
        value = 2 * size**3 / timed["seconds"]
        if value > best.get("value", 0.0):
            best = {"value": value, "size": size, **timed}
        # The next size takes eight times as long, five times over and once to warm up.
        needed = timed["seconds"] * 8 * (SAMPLES + 1)
        if timed["seconds"] >= _LONG_ENOUGH or SystemClock.now() + needed > deadline:
            break
        size *= 2
    return best


def _copy(device: torch.device, seconds: float) -> dict[str, Any]:
    import torch

    size = _COPY_BYTES.get(device.type, _COPY_BYTES_ACCELERATOR)
    sync = place.waiter(device)
    with torch.inference_mode():
        source = torch.ones(size // 4, device=device)
        to = torch.empty_like(source)
        timed = best_of(lambda: to.copy_(source), sync, deadline=SystemClock.now() + seconds)
    return {
        "kind": "copy",
        "device": str(device),
        "dtype": "float32",
        "unit": "B/s",
        "formula": "2*bytes / s",
        "value": 2 * size / timed["seconds"],
        "size": size,
        **timed,
    }


def best_copy(device: torch.device, seconds: float) -> float:
    return float(_copy(device, seconds)["value"])


def best_of(call: Callable[[], Any], sync: Callable[[], None], *, deadline: float) -> dict[str, Any]:
    """Seconds of one call: the best of five samples, each of as many calls as make it long enough.

    Fewer than five, but at least one, if the deadline (on `perf_counter`) comes first."""
    call()
    sync()
    began = SystemClock.now()
    call()
    sync()
    once = max(SystemClock.now() - began, 1e-7)
    repeats = max(1, int(_SHORTEST_SAMPLE / once))
    samples: list[float] = []
    while len(samples) < SAMPLES and (not samples or SystemClock.now() < deadline):
        began = SystemClock.now()
        for _ in range(repeats):
            call()
        sync()
        samples.append((SystemClock.now() - began) / repeats)
    return {"seconds": min(samples), "samples": samples}


# What torch sees of the machine.


_WAITS = 200


def survey(*, seconds: float = 0.0) -> dict[str, Any]:
    """Everything in one process, because importing torch takes longer than the rest: `devices` (as records),
    `libraries`, `knobs`, `sync` (seconds by device), `rates` (see `peaks`). seconds: time for the measured
    peaks of each device; 0 leaves them out."""
    names = place.present()
    devices, libraries, sync = [], {}, {}
    knobs: dict[str, Any] = {}
    rates: list[dict[str, Any]] = []
    for name in reversed(names):  # the CPU first: accelerators add to what it told
        device = place.resolve(name)
        devices += [msgspec.to_builtins(description) for description in place.describe(device)]
        libraries.update(place.libraries(device))
        knobs.update(place.knobs(device))
        sync[name] = wait_cost(device)
        if seconds:
            rates += peaks(name, dtypes_of(name), seconds)
    return {"devices": devices, "libraries": libraries, "knobs": knobs, "sync": sync, "rates": rates}


def dtypes_of(device: str) -> list[str]:
    if device.startswith("cuda"):
        return ["float32", "tf32", "bfloat16", "float16"]
    return ["float32", "bfloat16"] if device == "cpu" else ["float32", "float16"]


def wait_cost(device: Any) -> float:
    """Seconds to wait for a device that has nothing to do, the median of 200; 0 if nothing is waited for.

    It is part of every `isolated` latency."""
    if device.type == "cpu":
        return 0.0

    wait: Callable[[], None] = place.waiter(device)
    torch.zeros(1, device=device)  # the first use of a device sets it up
    wait()
    seconds = []
    for _ in range(_WAITS):
        started = time.perf_counter()
        wait()
        seconds.append(time.perf_counter() - started)
    return sorted(seconds)[_WAITS // 2]
