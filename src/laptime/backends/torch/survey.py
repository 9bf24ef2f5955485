"""What torch sees of this machine: devices, versions, knobs, and what waiting for each device costs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgspec

from laptime.backends.torch import place
from laptime.backends.torch.peaks import peaks

_WAITS = 200


def survey(*, seconds: float = 0.0) -> dict[str, Any]:
    """Everything in one process, because importing torch takes longer than the rest.

    Args:
        seconds: time for the measured peaks of each device; 0 leaves them out.

    Returns:
        `devices` (as records), `libraries`, `knobs`, `sync` (seconds by device), `rates` (see `peaks`).
    """
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
    """The dtypes whose peak is worth knowing on this kind of device."""
    if device.startswith("cuda"):
        return ["float32", "tf32", "bfloat16", "float16"]
    return ["float32", "bfloat16"] if device == "cpu" else ["float32", "float16"]


def wait_cost(device: Any) -> float:
    """Seconds to wait for a device that has nothing to do, the median of 200; 0 where nothing is waited for.

    It is part of every `isolated` latency.
    """
    if device.type == "cpu":
        return 0.0
    import torch

    wait: Callable[[], None] = place.waiter(device)
    torch.zeros(1, device=device)  # the first use of a device sets it up
    wait()
    seconds = []
    for _ in range(_WAITS):
        started = time.perf_counter()
        wait()
        seconds.append(time.perf_counter() - started)
    return sorted(seconds)[_WAITS // 2]
